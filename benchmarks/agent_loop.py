"""Four turns of a coding agent, by several clients at once, against any OpenAI endpoint.

    python -m benchmarks.agent_loop                          starts `sapwood up` for itself
    python -m benchmarks.agent_loop --base-url URL --model NAME

The turns follow the public comparison that the project answers, divided by `--scale` to fit a small model's context:
a system prompt and file tree, an instruction, compiler errors, edited code, test output. The system prompt is shared by
all clients, everything else differs. Reported: time for all, time to first token by turn, time per token after it, and
the part of the prompt that the server says it did not compute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

SAPWOOD = (sys.executable, "-c", "from agents.cli import main; main()")
SYSTEM_TOKENS = 3200
TURN_TOKENS = (512, 1400, 850, 320)
WORDS = ("return", "value", "index", "error", "line", "file", "test", "def", "self", "import", "list", "name", "path")


@dataclass(frozen=True)
class Turn:
    number: int
    ttft: float
    per_token: float | None
    prompt: int
    cached: int


def main() -> None:
    options = _options()
    if options.base_url:
        _report(asyncio.run(_measure(options, options.base_url)))
        return
    with _stack(options.replicas) as url:
        _report(asyncio.run(_measure(options, url)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", help="up to and including /v1")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64, help="generated in each turn")
    parser.add_argument("--scale", type=float, default=1.0, help="divide the prompts by this")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


@contextmanager
def _stack(replicas: int) -> Iterator[str]:
    up = subprocess.Popen(
        [*SAPWOOD, "up", "--port", "0", "--replicas", str(replicas)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert up.stdout is not None
        found = re.match(r"sapwood up ready at (\S+)", up.stdout.readline())
        if found is None:
            sys.exit("the stack did not start")
        yield f"{found.group(1)}/v1"
    finally:
        up.send_signal(signal.SIGINT)
        up.wait()


async def _measure(options: argparse.Namespace, url: str) -> tuple[float, list[Turn]]:
    async with httpx.AsyncClient(base_url=url, timeout=None) as http:
        await _ask(http, options, [{"role": "user", "content": "warm up"}], 0)
        began = time.perf_counter()
        turns = await asyncio.gather(*(_client(http, options, i) for i in range(options.clients)))
        return time.perf_counter() - began, [turn for client in turns for turn in client]


async def _client(http: httpx.AsyncClient, options: argparse.Namespace, number: int) -> list[Turn]:
    shared = _text(random.Random(options.seed), SYSTEM_TOKENS / options.scale)
    own = random.Random(f"{options.seed}/{number}")
    messages = [{"role": "system", "content": shared}]
    turns = []
    for turn, tokens in enumerate(TURN_TOKENS, 1):
        messages.append({"role": "user", "content": _text(own, tokens / options.scale)})
        answer, measured = await _ask(http, options, messages, turn)
        messages.append({"role": "assistant", "content": answer})
        turns.append(measured)
    return turns


def _text(source: random.Random, tokens: float) -> str:
    """About `tokens` tokens of code-like words."""
    return " ".join(source.choice(WORDS) for _ in range(int(tokens)))


async def _ask(
    http: httpx.AsyncClient, options: argparse.Namespace, messages: list[dict[str, str]], turn: int
) -> tuple[str, Turn]:
    body = {
        "model": options.model,
        "messages": messages,
        "max_tokens": options.tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began = time.perf_counter()
    first, text, usage = None, [], {}
    async with http.stream("POST", "/chat/completions", json=body) as reply:
        if reply.status_code != 200:
            sys.exit(f"{reply.status_code}: {(await reply.aread()).decode()}")
        async for line in reply.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            piece = chunk["choices"][0]["delta"].get("content") if chunk["choices"] else None
            if piece:
                first = first or time.perf_counter()
                text.append(piece)
    ended = time.perf_counter()
    first = first or ended
    generated = usage.get("completion_tokens", 0)
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    per_token = (ended - first) / (generated - 1) if generated > 1 else None
    return "".join(text), Turn(turn, first - began, per_token, usage.get("prompt_tokens", 0), cached)


def _report(result: tuple[float, list[Turn]]) -> None:
    seconds, turns = result
    print(f"time for all: {seconds:.1f} s")
    print("| turn | prompt tokens | cached | TTFT median | TPOT median |\n|---|---|---|---|---|")
    for number in range(1, len(TURN_TOKENS) + 1):
        of_turn = [turn for turn in turns if turn.number == number]
        cached = sum(t.cached for t in of_turn) / max(1, sum(t.prompt for t in of_turn))
        ttft = statistics.median(t.ttft for t in of_turn)
        per_token = statistics.median(t.per_token for t in of_turn if t.per_token is not None)
        prompt = statistics.median(t.prompt for t in of_turn)
        print(f"| {number} | {prompt:.0f} | {cached:.1%} | {ttft:.2f} s | {per_token * 1000:.0f} ms |")
    later = [turn for turn in turns if turn.number > 1]
    print(f"cached share, turns 2 to 4: {sum(t.cached for t in later) / sum(t.prompt for t in later):.1%}")


if __name__ == "__main__":
    main()
