"""The real model, opened once a session."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def smollm2_checkpoint(smollm2_path):
    from engine.weights.checkpoint import open_checkpoint

    return open_checkpoint(smollm2_path)
