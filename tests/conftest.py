"""What tests of several packages share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def smollm2_path():
    """The embedded model; `make model` has fetched it."""
    from engine.weights.source import home_folder, resolve

    return resolve("smollm2", home_folder())
