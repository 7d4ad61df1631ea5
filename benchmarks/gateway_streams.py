"""What gateways add to an agent's requests, beside each other in one run.

    python -m benchmarks.gateway_streams
    python -m benchmarks.gateway_streams --soak

Each gateway has one core, the load and the upstream (a server that only streams) have another. All are up at the same
time and take turns, request by request and round by round, so that noise meets all alike. The second form keeps 1,000
streams open through our gateway for a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field

from benchmarks import machine
from benchmarks.client import BenchmarkError
from benchmarks.gateway_load import OneByOne, Tally, session_bodies, stream_for
from benchmarks.gateway_peers import LOAD_CORE, PEERS, Proxy, behind, install, on_core
from benchmarks.gateway_process import cpu_seconds, resident_mb
from benchmarks.gateway_soak import PACE_MS, soak, words
from benchmarks.gateway_upstream import ADDRESSES
from benchmarks.options import count, end_cleanly, parser, write_json
from benchmarks.peers.base import PeerError
from benchmarks.report import NOTHING, percentile, ratio, table
from engine.weights.source import home_folder

HISTORY_KB = 80
TURNS = 8
DIRECT = "direct"
HEAD = (
    "gateway",
    "TTFT median",
    "added, median",
    "added, p90",
    "CPU a chunk",
    "streams/s",
    "memory",
    "added ÷ sapwood's",
    "CPU a chunk ÷ sapwood's",
)


@dataclass
class Figures:
    name: str
    ttft: list[float] = field(default_factory=list)
    """Seconds, request by request; the same requests for all."""
    cpu_us: list[float] = field(default_factory=list)
    """Microseconds a chunk, of each round."""
    streams_per_s: list[float] = field(default_factory=list)
    memory_mb: float = 0.0


def main() -> None:
    given = _options()
    end_cleanly()
    try:
        if given.soak:
            sys.exit(_soak(given))
        found, missing = compare(given.peers, given.sessions, given.rounds, given.seconds or 4)
    except (BenchmarkError, PeerError) as error:
        sys.exit(f"gateway_streams: {error}")
    except KeyboardInterrupt:
        sys.exit("gateway_streams: interrupted")
    print(machine.describe())
    print("\n".join([*rows(found), *missing]))
    write_json(given.json, {"machine": machine.describe(), "gateways": [asdict(each) for each in found]})


def _soak(given: argparse.Namespace) -> int:
    with upstream(PACE_MS) as urls:
        found = soak(home_folder() / "bench", urls, given.streams, given.seconds or 60)
    print(machine.describe())
    print("\n".join(words(found, given.streams)))
    write_json(given.json, {"machine": machine.describe(), "soak": asdict(found)})
    return 1 if found.faults else 0


def compare(
    names: Sequence[str], sessions: int, rounds: int, seconds: float, at_once: int = 64
) -> tuple[list[Figures], list[str]]:
    """Figures of the upstream itself and of each gateway, and why others are missing."""
    folder = home_folder() / "bench"
    wanted = [peer for peer in PEERS if peer.name in names]
    missing = []
    with ExitStack() as stack:
        urls = stack.enter_context(upstream(pace_ms=0))
        proxies = []
        for peer in wanted:
            try:
                install(peer, folder)
                proxies.append(stack.enter_context(behind(peer, folder, urls)))
            except PeerError as error:
                missing.append(f"{peer.name}: not measured: {error}")
        os.sched_setaffinity(0, {LOAD_CORE})
        found = {name: Figures(name) for name in (DIRECT, *(proxy.name for proxy in proxies))}
        one_by_one({DIRECT: urls[0]} | {proxy.name: proxy.url for proxy in proxies}, found, sessions)
        for _ in range(rounds):
            for proxy in proxies:
                many(proxy, found[proxy.name], at_once, seconds)
    return list(found.values()), missing


def one_by_one(urls: dict[str, str], found: dict[str, Figures], sessions: int) -> None:
    """Each request to all, in a changing order. The first session warms up and is not counted."""
    connections = {name: OneByOne(url) for name, url in urls.items()}
    order = list(urls)
    for session in range(sessions + 1):
        for body in session_bodies(session, HISTORY_KB, TURNS):
            order.append(order.pop(0))
            for name in order:
                ttft = connections[name].ttft(body)
                if session:
                    found[name].ttft.append(ttft)
    for connection in connections.values():
        connection.close()


def many(proxy: Proxy, found: Figures, at_once: int, seconds: float) -> None:
    before = cpu_seconds(proxy.pid)
    done = asyncio.run(stream_for(proxy.url, at_once, seconds, Tally()))
    if done.errors:
        raise BenchmarkError(f"{proxy.name}: {len(done.errors)} of {done.streams} streams failed: {done.errors[0]}")
    found.cpu_us.append((cpu_seconds(proxy.pid) - before) / done.chunks * 1e6)
    found.streams_per_s.append(done.streams / done.seconds)
    found.memory_mb = resident_mb(proxy.pid)


@contextmanager
def upstream(pace_ms: float) -> Iterator[list[str]]:
    """Its URLs."""
    command = [sys.executable, "-m", "benchmarks.gateway_upstream", "--pace", str(pace_ms)]
    with subprocess.Popen(on_core(LOAD_CORE, command), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            urls = [process.stdout.readline().strip() for _ in range(ADDRESSES)]
            if not all(urls):
                raise PeerError("the upstream server did not start")
            yield urls
        finally:
            process.terminate()


def rows(found: Sequence[Figures]) -> list[str]:
    """The Markdown table. Added is the difference of medians, and of 90th percentiles."""
    direct = found[0]
    ours = next((each for each in found[1:] if each.name == "sapwood"), None)
    return table(HEAD, [_row(each, direct, ours) for each in found])


def _row(each: Figures, direct: Figures, ours: Figures | None) -> list[str]:
    if each is direct:
        return [each.name, _ms(statistics.median(each.ttft)), *[NOTHING] * (len(HEAD) - 2)]
    cpu = statistics.median(each.cpu_us)
    return [
        each.name,
        _ms(statistics.median(each.ttft)),
        _ms(added(each, direct, 50)),
        _ms(added(each, direct, 90)),
        f"{cpu:.1f} µs",
        f"{statistics.median(each.streams_per_s):.0f}",
        f"{each.memory_mb:.0f} MB",
        ratio(added(each, direct, 50), added(ours, direct, 50) if ours else None),
        ratio(cpu, statistics.median(ours.cpu_us) if ours else None),
    ]


def added(each: Figures, direct: Figures, percent: float) -> float:
    return percentile(each.ttft, percent) - percentile(direct.ttft, percent)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    known = [peer.name for peer in PEERS]
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"no gateway named {', '.join(unknown)}; known: {', '.join(known)}")
    return names


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--peers", type=_names, default=[peer.name for peer in PEERS])
    options.add_argument("--sessions", type=count, default=25, help=f"of {TURNS} requests one after the other")
    options.add_argument("--rounds", type=count, default=3, help="of many streams at once")
    options.add_argument("--seconds", type=float, help="of each round (4) or of the soak (60)")
    options.add_argument("--soak", action="store_true", help="our gateway alone, many streams for long")
    options.add_argument("--streams", type=count, default=1000, help="open at once in the soak")
    return options.parse_args()


if __name__ == "__main__":
    main()
