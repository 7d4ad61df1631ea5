"""Other servers that the same scenario is run against, each in an environment of its own."""

from __future__ import annotations

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
