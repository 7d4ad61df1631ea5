"""Conversations with tool calls: every answer goes back exactly as it came, with a result for each of its calls.

What a turn leaves for the next to reuse, at best: keys and values of its prompt and of those generated tokens that were
an input. The last sampled one never was, nor what jump-forward put behind it before a limit ended the answer. One that
a stop string has cut goes back without that string, so there it is the tokens wholly before it. `logprobs` tells
tokens, their bytes and whether they were forced.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any

import httpx

from benchmarks import corpus
from benchmarks.agent_tools import agent_tools
from benchmarks.client import BenchmarkError

STOPS = ("\n\n", ". ", "the", '", "', "=")


class Cut(Enum):
    """What may end an answer before the model does."""

    LIMIT = "limit"
    SHORT = "short limit"
    STOP = "stop string"


@dataclass(frozen=True)
class Ask:
    """How one turn is asked for. Short and ordinary limits differ in how many answers they let end by themselves."""

    choice: str
    cut: Cut
    tokens: int
    stop: str | None
    seed: int
    stream: bool

    def body(self, model: str, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        more: dict[str, Any] = {"stop": [self.stop]} if self.stop else {}
        if self.stream:
            more["stream_options"] = {"include_usage": True}
        return {
            "model": model,
            "messages": messages,
            "tools": agent_tools(),
            "tool_choice": self.choice,
            "temperature": 1,
            "seed": self.seed,
            "max_tokens": self.tokens,
            "logprobs": True,
            "stream": self.stream,
            **more,
        }


@dataclass
class Reply:
    """An answer put together as any client does it."""

    message: dict[str, Any] = field(default_factory=lambda: {"role": "assistant", "content": None})
    finish: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    """The bytes of each token but the one that only ended the answer."""
    sampled: int = 0
    """How many of these come before the last one that wasn't forced."""

    def take(self, part: Mapping[str, Any], usage: Mapping[str, Any] | None) -> None:
        """A choice of a whole answer or of a chunk."""
        self.usage = usage or self.usage
        if not part:
            return
        self.finish = part.get("finish_reason") or self.finish
        for entry in (part.get("logprobs") or {}).get("content") or ():
            self.sampled = self.sampled if entry.get("forced") else len(self.pieces)
            self.pieces.append(bytes(entry["bytes"]))
        delta = part.get("delta") or part.get("message") or {}
        for key in ("content", "reasoning_content"):
            if delta.get(key):
                self.message[key] = (self.message.get(key) or "") + delta[key]
        for call in delta.get("tool_calls") or ():
            self._take_call(call)

    def _take_call(self, part: Mapping[str, Any]) -> None:
        calls = self.message.setdefault("tool_calls", [])
        if "id" in part:
            function = {"name": part["function"]["name"], "arguments": ""}
            calls.append({"id": part["id"], "type": "function", "function": function})
        calls[part.get("index", len(calls) - 1)]["function"]["arguments"] += part["function"].get("arguments", "")

    @property
    def tokens(self) -> int:
        return int(self.usage["prompt_tokens"]) + int(self.usage["completion_tokens"])

    @property
    def cached(self) -> int:
        return int(self.usage["prompt_tokens_details"]["cached_tokens"])


@dataclass(frozen=True)
class Step:
    """A turn that another one followed: the tokens of its prompt and answer, how many of these could be found again,
    and how many the follow-up found."""

    run: int
    number: int
    ask: Ask
    end: str
    tokens: int
    reusable: int
    cached: int
    message: Mapping[str, Any]

    @property
    def recomputed(self) -> int:
        return max(0, self.reusable - self.cached)


def asks(run: int, turns: int, tokens: int, seed: int) -> list[Ask]:
    """The turns of one run: whether a call is required, how long it may be and whether a stop string cuts it."""
    source = Random(f"tool turns/{seed}/{run}")
    found = []
    for _ in range(turns):
        cut = source.choices(list(Cut), (6, 2, 2))[0]
        limit = source.randrange(1, 40) if cut is Cut.SHORT else tokens
        stop = source.choice(STOPS) if cut is Cut.STOP else None
        choice = source.choice(("auto", "required"))
        found.append(Ask(choice, cut, limit, stop, source.randrange(1 << 30), stream=run % 2 == 1))
    return found


async def talk(http: httpx.AsyncClient, model: str, run: int, turns: Sequence[Ask]) -> AsyncIterator[Step]:
    """One conversation. A step is known when the turn after it has come."""
    source = Random(f"tool talk/{run}")
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent. Use the tools, one step at a time."},
        {"role": "user", "content": f"Task {run}: {next(corpus.tasks(source))}"},
    ]
    before: Reply | None = None
    for number, ask in enumerate(turns, 1):
        reply = await say(http, ask.body(model, messages))
        if before is not None:
            last = turns[number - 2]
            counts = (before.tokens, reusable(before, last), reply.cached)
            yield Step(run, number - 1, last, end_of(before, last), *counts, before.message)
        before = reply
        messages += [reply.message, *results(reply.message, source)]


def results(message: Mapping[str, Any], source: Random) -> list[dict[str, Any]]:
    """What the tools answer; to an answer without calls, what the user says."""
    calls = message.get("tool_calls") or ()
    if not calls:
        return [{"role": "user", "content": next(corpus.tasks(source))}]
    output = corpus.pytest_output(source)
    return [{"role": "tool", "tool_call_id": call["id"], "content": next(output)} for call in calls]


def reusable(reply: Reply, ask: Ask) -> int:
    """Tokens of the turn that have keys and values and are in its history."""
    ended = int(reply.usage["completion_tokens"]) > len(reply.pieces)  # by a token of its own, sampled after all others
    computed = len(reply.pieces) if ended else reply.sampled
    shown = whole_before(reply.pieces, ask.stop or "") if stopped(reply, ask) else len(reply.pieces)
    return int(reply.usage["prompt_tokens"]) + min(computed, shown)


def stopped(reply: Reply, ask: Ask) -> bool:
    """Whether the stop string has ended it."""
    return ask.stop is not None and ask.stop.encode() in b"".join(reply.pieces)


def whole_before(pieces: Sequence[bytes], stop: str) -> int:
    """How many tokens lie wholly before the first `stop`."""
    left = b"".join(pieces).find(stop.encode())
    count = 0
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            break
        count += 1
    return count


def end_of(reply: Reply, ask: Ask) -> str:
    """What ended it, for the table: a cut within a call is another matter than one within text."""
    name = "stop string" if stopped(reply, ask) else reply.finish
    calls = reply.message.get("tool_calls")
    return f"{name}, with a call" if calls and name != "tool_calls" else name


async def say(http: httpx.AsyncClient, body: Mapping[str, Any]) -> Reply:
    reply = Reply()
    async with http.stream("POST", "chat/completions", json=body) as answer:
        if answer.status_code != 200:
            text = (await answer.aread()).decode(errors="replace")
            raise BenchmarkError(f"{answer.url} answered {answer.status_code}: {text[:300]}")
        if not body["stream"]:
            whole = json.loads(await answer.aread())
            reply.take(whole["choices"][0], whole["usage"])
            return reply
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    raise BenchmarkError(f"the answer ended with an error: {json.dumps(chunk['error'])[:300]}")
                reply.take(next(iter(chunk["choices"]), {}), chunk.get("usage"))
    return reply
