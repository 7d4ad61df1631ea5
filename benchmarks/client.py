"""The clients: they hold their conversations with one server, all at once, and time what comes back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from benchmarks.scenario import Conversation

Message = dict[str, str]


class BenchmarkError(Exception):
    """What keeps a measurement from being made, in one line."""


@dataclass(frozen=True)
class Turn:
    """One answer as its client saw it. Seconds; `cached` is None where the server doesn't say."""

    client: int
    number: int
    ttft: float
    per_token: float | None
    prompt: int
    completion: int
    cached: int | None


@dataclass(frozen=True)
class Run:
    """All turns of all clients, and the seconds from the first request to the last answer."""

    seconds: float
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Server:
    """Any OpenAI server. `base_url` goes up to and including `/v1`."""

    base_url: str
    model: str


async def hold(server: Server, spoken: Sequence[Conversation], tokens: int, limit: float = 1800) -> Run:
    """The whole scenario, after one short request that warms the server up.

    BenchmarkError where it fails or takes longer than `limit` seconds.
    """
    try:
        async with asyncio.timeout(limit), _connect(server, limit) as http:
            await _ask(http, server.model, [{"role": "user", "content": "Say hello."}], 2)
            began = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(_client(http, server.model, number, conversation, tokens))
                    for number, conversation in enumerate(spoken)
                ]
            seconds = time.perf_counter() - began
    except TimeoutError:
        raise _too_late(server, limit) from None
    except httpx.HTTPError as error:
        raise _unreachable(server, error) from None
    except ExceptionGroup as group_error:
        first = group_error.exceptions[0]
        raise (first if isinstance(first, BenchmarkError) else _unreachable(server, first)) from None
    return Run(seconds, tuple(turn for task in tasks for turn in task.result()))


async def ask_alone(server: Server, messages: Sequence[Message], tokens: int, limit: float = 600) -> Answer:
    """One answer, on a connection of its own. BenchmarkError where there is none."""
    try:
        async with asyncio.timeout(limit), _connect(server, limit) as http:
            return await _ask(http, server.model, messages, tokens)
    except TimeoutError:
        raise _too_late(server, limit) from None
    except httpx.HTTPError as error:
        raise _unreachable(server, error) from None


def _connect(server: Server, limit: float) -> httpx.AsyncClient:
    """A connection for each request: some servers close theirs after a stream without saying so."""
    no_reuse = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(base_url=server.base_url, timeout=limit, limits=no_reuse)


def _too_late(server: Server, limit: float) -> BenchmarkError:
    return BenchmarkError(f"{server.base_url}: not done after {limit:.0f} s")


def _unreachable(server: Server, error: Exception) -> BenchmarkError:
    return BenchmarkError(f"{server.base_url}: {str(error) or type(error).__name__}")


async def _client(
    http: httpx.AsyncClient, model: str, number: int, conversation: Conversation, tokens: int
) -> list[Turn]:
    messages: list[Message] = [{"role": "system", "content": conversation.system}]
    turns = []
    for turn, text in enumerate(conversation.turns, 1):
        messages.append({"role": "user", "content": text})
        answer = await _ask(http, model, messages, tokens)
        messages.append({"role": "assistant", "content": answer.text})
        turns.append(answer.turn(number, turn))
    return turns


class Answer:
    """Collects a stream: its text, when its first and last pieces came, and the server's counts."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.first: float | None = None
        self.last = self.began
        self.pieces: list[str] = []
        self.usage: Mapping[str, Any] = {}
        self.timings: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def take(self, chunk: Mapping[str, Any]) -> None:
        """One event of the stream, at the moment when it came."""
        if "error" in chunk:
            raise BenchmarkError(f"the server ended its answer with an error: {json.dumps(chunk['error'])[:300]}")
        self.usage = chunk.get("usage") or self.usage
        self.timings = chunk.get("timings") or self.timings
        choices = chunk.get("choices") or []
        piece = choices[0].get("delta", {}).get("content") if choices else None
        if piece:
            self.last = time.perf_counter()
            self.first = self.first or self.last
            self.pieces.append(piece)

    def turn(self, client: int, number: int) -> Turn:
        first = self.first or self.last
        completion = self.usage.get("completion_tokens") or 0
        return Turn(
            client=client,
            number=number,
            ttft=first - self.began,
            per_token=(self.last - first) / (completion - 1) if completion > 1 else None,
            prompt=self.usage.get("prompt_tokens") or 0,
            completion=completion,
            cached=cached_tokens(self.usage, self.timings),
        )


def cached_tokens(usage: Mapping[str, Any], timings: Mapping[str, Any]) -> int | None:
    """As OpenAI says it, or as llama.cpp's server does; None where neither is there."""
    details = usage.get("prompt_tokens_details") or {}
    found = details.get("cached_tokens")
    return timings.get("cache_n") if found is None else int(found)


async def _ask(http: httpx.AsyncClient, model: str, messages: Sequence[Message], tokens: int) -> Answer:
    """Exactly `tokens` tokens, whatever the model would rather do: `ignore_eos` and `min_tokens` are extensions that
    servers know or pass over."""
    body = {
        "model": model,
        "messages": messages,
        "max_tokens": tokens,
        "min_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer = Answer()
    async with http.stream("POST", "chat/completions", json=body) as reply:
        if reply.status_code != 200:
            text = (await reply.aread()).decode(errors="replace")
            raise BenchmarkError(f"{reply.url} answered {reply.status_code}: {text[:300]}")
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                answer.take(json.loads(line[6:]))
    return answer
