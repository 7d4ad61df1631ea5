"""Drives the terminal UI with keys and looks at its screen; the session behind it is scripted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from agents.tui.app import SapwoodApp
from tests.agents.tui.fake import FakeTalk


@dataclass
class Terminal:
    app: SapwoodApp
    pilot: Any
    talk: FakeTalk

    @property
    def rows(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        await self.pilot.press(*text)

    async def enter(self, text: str) -> None:
        """Send `text` as if it had been typed."""
        self.app.prompt.put(text)
        await self.pilot.press("enter")

    async def until(self, what: str | Callable[[], bool]) -> None:
        """Wait for a text to be seen, or for a condition."""
        try:
            with anyio.fail_after(10):
                while not (what in self.text if isinstance(what, str) else what()):
                    await self.pilot.pause()
                    await anyio.sleep(0.005)
        except TimeoutError:
            pytest.fail(f"never seen: {what!r}\n{self.text}")

    async def gone(self, text: str) -> None:
        await self.until(lambda: text not in self.text)


class Clock:
    """Seconds go by when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def drive():
    """`drive(test, *scripts)` runs `test(terminal)` on a session that runs one script for each thing said."""

    def run(test, *scripts, size=(100, 40), state=None, first=None, grace=0.0, clock=None):
        async def main():
            app = SapwoodApp("greeting", first, grace, clock or Clock())
            talk = FakeTalk(app.stage, app.ask)
            talk.scripts = list(scripts)
            talk.state = state or talk.state
            app.hold(talk)
            async with app.run_test(size=size) as pilot:
                await test(Terminal(app, pilot, talk))

        anyio.run(main)

    return run
