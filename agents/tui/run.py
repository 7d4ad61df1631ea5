"""The way in: a session in a terminal, until the person leaves."""

from __future__ import annotations

from agents.state import State
from agents.tui.app import SapwoodApp
from agents.tui.ports import Converse


async def run_tui(converse: Converse, *, greeting: str = "", first: str | None = None) -> State:
    """Open the session and talk; its state when the person has left. `first` is said at once.

    Raises what opening the session raises, before the screen is touched. It runs on asyncio, in the main thread.
    """
    app = SapwoodApp(greeting, first)
    async with converse(app.stage, app.ask) as talk:
        app.hold(talk)
        await app.run_async()
        return talk.state
