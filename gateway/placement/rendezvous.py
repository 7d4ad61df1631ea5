"""Rendezvous hashing: every gateway ranks the same replicas the same way for the same key, without talking."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from gateway.placement.base import ReplicaView


def rank(key: str, replica: str) -> int:
    """The replica's weight for `key`; the largest wins. Adding a replica moves only what it wins."""
    return int.from_bytes(blake2b(f"{key}\0{replica}".encode(), digest_size=8).digest())


def meeting_place(key: str, replicas: Sequence[ReplicaView]) -> ReplicaView:
    """Where all that has this key goes."""
    return max(replicas, key=lambda one: rank(key, one.url))
