"""A scripted session: each thing that is said runs the next script, which reports to the view like a real one."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from agents.state import State, Status, Turn
from agents.stream import Delta, Part
from agents.toolbox import ToolResult

TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"{about}\nMore.", "parameters": {}}}
    for name, about in (("edit_file", "Replace one exact piece of text."), ("run_tests", "Run the tests."))
]


class FakeTalk:
    context_limit = 32_768

    def __init__(self, view, ask):
        self.view, self.ask = view, ask
        self.state = State()
        self.scripts: list[Callable[[FakeTalk], Awaitable[Any]]] = []
        self.said: list[str] = []
        self.done: list[str] = []
        """Everything but words that was asked of the session."""
        self.patch = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"
        self.reasons = [
            "turn 1    [####....]  90 of 100 reused",
            "BREAK     timestamp at messages[0]: about 9 tokens lost",
        ]

    async def say(self, text):
        self.said.append(text)
        self._begin()
        return await self._run()

    async def resume(self):
        self.done.append("resume")
        return await self._run()

    async def diff(self):
        return self.patch

    async def undo(self):
        self.done.append("undo")
        return "Took back the edit of x.py."

    async def why(self):
        return self.reasons

    async def compact(self):
        self.done.append("compact")
        return "9 messages are 4 now"

    async def fork(self, event=None):
        self.done.append(f"fork {event}")
        self.state.id += ".f1"
        return self.state.id

    async def models(self):
        return ["scripted", "other"]

    def use_model(self, name):
        self.done.append(f"model {name}")
        self.state.switched = name

    # What scripts do

    def text(self, *pieces):
        self._stream(Part.TEXT, pieces)

    def think(self, *pieces):
        self._stream(Part.REASONING, pieces)

    def write_call(self, name, *pieces):
        self._stream(Part.CALL, [name])
        self._stream(Part.ARGUMENTS, pieces)

    def begin_call(self, name, **arguments):
        self.view.calling(self.state.id, name, arguments)

    def end_call(self, name, text, is_error=False, data=None):
        self.view.tool(self.state.id, name, ToolResult(text, is_error, data))

    def call(self, name, result, is_error=False, data=None, **arguments):
        self.write_call(name, str(arguments))
        self.begin_call(name, **arguments)
        self.end_call(name, result, is_error, data)

    def turn(self, prompt=1000, cached=900, completion=21, ttft=0.125, seconds=0.625, calls=()):
        number = len(self.state.turns) + 1
        turn = Turn(number, prompt, cached, completion, ttft, seconds, tuple(calls))
        self.state.turns.append(turn)
        self.view.turn(self.state.id, turn)

    def _stream(self, part, pieces):
        for piece in pieces:
            self.view.delta(self.state.id, Delta(part, piece))

    def _begin(self):
        if not self.state.opened:
            self.state.id = "20260102-101500-ab12cd"
            self.state.opened = {
                "model": "scripted",
                "tools": copy.deepcopy(TOOLS),
                "task": self.said[0],
                "messages": [],
            }

    async def _run(self):
        self.state.status, self.state.reason = Status.RUNNING, ""
        try:
            ended = await self.scripts.pop(0)(self) if self.scripts else None
        except anyio.get_cancelled_exc_class():
            self.state.status = Status.INTERRUPTED
            raise
        if self.state.status is Status.RUNNING:
            self.state.status = ended or Status.ANSWERED
        return self.state.status


@asynccontextmanager
async def opened(view, ask) -> AsyncIterator[FakeTalk]:
    yield FakeTalk(view, ask)


def child_turn(talk, name="s1", **given):
    turn = Turn(**{"number": 1, "prompt": 100, "cached": 90, "completion": 5, "ttft": 0.1, "seconds": 0.2} | given)
    talk.view.turn(f"{talk.state.id}.{name}", dataclasses.replace(turn, calls=("read_file",)))
