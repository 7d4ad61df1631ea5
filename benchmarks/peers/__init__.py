"""Other servers that the same scenario is run against, each in an environment of its own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from benchmarks.peers.base import Peer
from benchmarks.peers.llamacpp import LlamaCpp
from benchmarks.peers.openvino import OpenVino
from benchmarks.peers.sapwood import SapwoodEngine, SapwoodStack
from benchmarks.peers.vllm import Vllm

BASELINE = "sapwood"
PEERS: Mapping[str, Peer] = {
    peer.name: peer for peer in (SapwoodEngine(), SapwoodStack(), OpenVino(), LlamaCpp(), Vllm())
}


def peer_names(text: str) -> list[str]:
    """The value of `--peers`."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in PEERS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"no peer named {', '.join(unknown) or text!r}; known: {', '.join(PEERS)}")
    return names
