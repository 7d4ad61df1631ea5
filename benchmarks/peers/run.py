"""Runs a measurement on several peers, one after the other; one that fails is named, and the others go on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from benchmarks.client import BenchmarkError
from benchmarks.peers.base import Endpoint, Peer, PeerError, Setup

Figures = TypeVar("Figures")


@dataclass(frozen=True)
class Outcome(Generic[Figures]):
    """What came of one peer: figures, or the reason why there are none."""

    name: str
    figures: Figures | None = None
    ready_seconds: float | None = None
    reason: str | None = None


def run_each(
    peers: Sequence[Peer], folder: Path, setup: Setup, work: Callable[[Endpoint], Figures]
) -> list[Outcome[Figures]]:
    """Everything is installed before anything is measured, so that no build runs beside a measurement."""
    reasons = {peer.name: _install(peer, folder / peer.name) for peer in peers}
    return [
        Outcome(peer.name, reason=reason)
        if (reason := reasons[peer.name]) is not None
        else _measure(peer, folder / peer.name, setup, work)
        for peer in peers
    ]


def missing(outcomes: Sequence[Outcome[Figures]]) -> list[str]:
    """A line for each peer without figures."""
    return [f"{each.name}: not measured: {each.reason}" for each in outcomes if each.figures is None]


def _install(peer: Peer, env: Path) -> str | None:
    """None, or why it can't be."""
    _say(f"{peer.name}: installing")
    try:
        peer.install(env)
    except PeerError as error:
        return str(error)
    return None


def _measure(peer: Peer, env: Path, setup: Setup, work: Callable[[Endpoint], Figures]) -> Outcome[Figures]:
    _say(f"{peer.name}: starting")
    try:
        with peer.serve(env, setup) as endpoint:
            _say(f"{peer.name}: ready after {endpoint.ready_seconds:.1f} s")
            figures = work(endpoint)
    except (PeerError, BenchmarkError) as error:
        return Outcome(peer.name, reason=str(error))
    return Outcome(peer.name, figures, endpoint.ready_seconds)


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
