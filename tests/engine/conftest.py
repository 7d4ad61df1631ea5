"""The real model, opened once a session, and the threads that compute it."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def smollm2_checkpoint(smollm2_path):
    from engine.weights.checkpoint import open_checkpoint

    return open_checkpoint(smollm2_path)


@pytest.fixture(scope="module")
def two_threads():
    """Kernels run in two threads, however many cores there are and however many workers share them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
