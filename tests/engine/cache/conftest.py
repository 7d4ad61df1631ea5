"""A stand-in for the KV tensors: each slot remembers for which namespace and token prefix it was written."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import pytest

from engine.cache.extents import Extent, total
from engine.cache.lease import Lease
from engine.cache.manager import KVCache


def each_slot(extents: Iterable[Extent]) -> list[int]:
    return [slot for start, length in extents for slot in range(start, start + length)]


class Tensors:
    """What a model step would do to KV memory: write the new tokens' slots, read all slots before them."""

    def __init__(self) -> None:
        self.written: dict[int, tuple[Hashable, tuple[int, ...]]] = {}

    def compute(self, lease: Lease, ids: list[int], upto: int | None = None) -> bool:
        """Computes the tokens of `ids` up to `upto` that aren't committed yet; False without memory."""
        start, end = lease.committed, len(ids) if upto is None else upto
        if not lease.grow(end - start):
            return False
        self.read(lease, ids)
        for position, slot in enumerate(each_slot(lease.slots(start, end - start)), start):
            self.written[slot] = (lease.namespace, tuple(ids[: position + 1]))
        lease.advance(end - start)
        self.read(lease, ids)
        return True

    def read(self, lease: Lease, ids: list[int]) -> None:
        """Every committed position must lie in a slot that was written for just this prefix."""
        slots = each_slot(lease.slots(0, lease.committed))
        assert len(slots) == lease.committed
        for position, slot in enumerate(slots):
            assert self.written.get(slot) == (lease.namespace, tuple(ids[: position + 1]))


class HostCopy:
    """What a GPU's owner would do for the tier: carries what is written between slots and host slots."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors
        self.host: dict[int, tuple[Hashable, tuple[int, ...]]] = {}
        self.saved = 0
        self.restored = 0

    def to_host(self, slots: Sequence[Extent], host: Sequence[Extent]) -> None:
        self._copy(self.tensors.written, slots, self.host, host)
        self.saved += total(slots)

    def to_slots(self, host: Sequence[Extent], slots: Sequence[Extent]) -> None:
        self._copy(self.host, host, self.tensors.written, slots)
        self.restored += total(slots)

    def _copy(self, source, there, target, here) -> None:
        for one, other in zip(each_slot(there), each_slot(here), strict=True):
            target[other] = source[one]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tensors() -> Tensors:
    return Tensors()


@pytest.fixture
def new_tensors() -> type[Tensors]:
    return Tensors


@pytest.fixture
def new_host_copy() -> type[HostCopy]:
    return HostCopy


@pytest.fixture
def new_clock() -> type[Clock]:
    return Clock


@pytest.fixture
def publish(tensors):
    """Runs a whole request that computes `ids` and leaves them in the cache."""

    def run(cache: KVCache, ids: list[int], namespace: Hashable = "ns") -> int:
        lease = cache.acquire(namespace, ids)
        assert tensors.compute(lease, ids)
        lease.close(ids)
        return lease.cached

    return run
