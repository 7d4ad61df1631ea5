"""Our gateway on one core with very many streams open: errors, and memory as it goes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gateway_load import Streamed, Tally, stream_for
from benchmarks.gateway_peers import LOAD_CORE, Proxy, Sapwood, behind
from benchmarks.gateway_process import cpu_seconds, resident_mb

PACE_MS = 100.0
"""From chunk to chunk of a stream: a brisk model's."""
MOST_MB = 300.0
FLAT = 1.1
"""So much may memory have grown from the middle of a run to its end."""
SAMPLE_S = 1.0


@dataclass(frozen=True)
class Soak:
    done: Streamed
    memory_mb: tuple[float, ...]
    """Second by second."""
    cpu_share: float
    """Of one core."""

    @property
    def faults(self) -> list[str]:
        middle, most = self.memory_mb[len(self.memory_mb) // 2], max(self.memory_mb)
        return [
            *([f"{len(self.done.errors)} streams failed: {self.done.errors[0]}"] if self.done.errors else []),
            *([f"memory is not flat: {middle:.0f} MB, later {most:.0f} MB"] if most > middle * FLAT else []),
            *([f"memory is over {MOST_MB:.0f} MB"] if most > MOST_MB else []),
        ]


def soak(folder: Path, urls: Sequence[str], streams: int, seconds: float) -> Soak:
    """Through a gateway that is started before these upstreams, which pace their streams."""
    with behind(Sapwood(), folder, urls) as proxy:
        os.sched_setaffinity(0, {LOAD_CORE})
        return asyncio.run(_run(proxy, streams, seconds))


async def _run(proxy: Proxy, streams: int, seconds: float) -> Soak:
    tally, memory = Tally(), []
    before = cpu_seconds(proxy.pid)
    load = asyncio.create_task(stream_for(proxy.url, streams, seconds, tally))
    while not (await asyncio.wait({load}, timeout=SAMPLE_S))[0]:
        memory.append(resident_mb(proxy.pid))
    done = load.result()
    return Soak(done, tuple(memory), (cpu_seconds(proxy.pid) - before) / done.seconds)


def words(found: Soak, streams: int) -> list[str]:
    done, memory = found.done, found.memory_mb
    marks = [memory[len(memory) * part // 4] for part in range(4)] + [memory[-1]]
    return [
        f"{streams} streams at once for {done.seconds:.0f} s: {done.streams} whole, {len(done.errors)} failed, "
        f"{done.chunks / done.seconds:.0f} chunks/s, {found.cpu_share:.0%} of a core, "
        f"{found.cpu_share * done.seconds / done.chunks * 1e6:.1f} µs a chunk",
        f"memory at the start, quarters and end: {' / '.join(f'{each:.0f}' for each in marks)} MB",
        *(found.faults or ["as wanted"]),
    ]
