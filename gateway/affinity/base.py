"""The vocabulary of bindings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Binding:
    """A prefix lies in the cache of `replica`, as long as that replica still runs under `epoch`."""

    replica: str
    epoch: str
    tokens: int
    """Length of the prefix: the engine's own count where it told, else an estimate from its bytes."""
    lineage: str
    """Id of the conversation that the prefix belongs to; handed from turn to turn."""
    used_ms: int
    """When the request that wrote this was dispatched. A newer one wins, however late the older one ends."""

    def encode(self) -> bytes:
        """`used_ms` comes first: the Lua script reads no further."""
        return f"{self.used_ms} {self.tokens} {self.lineage} {self.epoch} {self.replica}".encode()


def decode_binding(raw: bytes | None) -> Binding | None:
    """None for a missing value, and for one that this version can't read."""
    fields = raw.split(b" ") if raw else []
    if len(fields) != 5:
        return None
    used_ms, tokens, lineage, epoch, replica = fields
    try:
        return Binding(replica.decode(), epoch.decode(), int(tokens), lineage.decode(), int(used_ms))
    except ValueError:
        return None


class Level(StrEnum):
    """What a binding was found by, strongest first."""

    PREFIX = "prefix"
    """A boundary of this very conversation: an earlier turn."""
    HEAD = "head"
    """Tools and system messages only: a conversation like it."""
    SESSION = "session"
    """The session's key alone: its history was changed."""


class LookupResult(StrEnum):
    """How a look-up ended, as the metric names it."""

    HIT = "hit"
    STALE_EPOCH = "stale_epoch"
    MISS = "miss"
    FALLBACK = "fallback"
    """Redis did not answer in its time budget; the local mirror alone was asked."""


@dataclass(frozen=True, slots=True)
class Match:
    level: Level
    binding: Binding


@dataclass(frozen=True, slots=True)
class Found:
    """All bindings known for a request, strongest first, and whether the shared store took part."""

    matches: Sequence[Match]
    shared: bool
