"""The tokenizer of the real model."""

from __future__ import annotations

import pytest

from engine.prompt.tokenizer import load_tokenizer


@pytest.fixture(scope="session")
def tokenizer(smollm2_checkpoint):
    return load_tokenizer(smollm2_checkpoint.metadata, None)
