"""Between the event loop and the engine thread: one mailbox for each running call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from engine.core import Engine, Event
from engine.errors import RequestError
from engine.schedule.request import Request, State


class Dispatcher:
    """Hands each step's events to the calls that wait for them. Lives on one event loop."""

    def __init__(self, engine: Engine, max_waiting: int) -> None:
        self.engine = engine
        self.max_waiting = max_waiting
        self._mailboxes: dict[Request, asyncio.Queue[Event]] = {}

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.engine.start(lambda events: _hand_over(loop, self._dispatch, events))

    @property
    def in_flight(self) -> int:
        return len(self._mailboxes)

    def check_room(self, requests: int) -> None:
        """RequestError `queue_full` where so many more would be too many. Ask before the work of preparing them."""
        if self.in_flight + requests > self.max_waiting:
            raise RequestError("The engine's queue is full; try again soon.", code="queue_full", status=429)

    def run(self, requests: Sequence[Request]) -> AsyncGenerator[Event, None]:
        """The events until each request has ended; the first step submits, and leaving early aborts the rest.

        RequestError `queue_full` comes from the call itself, while an answer can still have a status.
        """
        self.check_room(len(requests))
        return self._events(requests)

    async def _events(self, requests: Sequence[Request]) -> AsyncGenerator[Event, None]:
        mailbox: asyncio.Queue[Event] = asyncio.Queue()
        open_requests = set(requests)
        for request in requests:
            self._mailboxes[request] = mailbox
            self.engine.submit(request)
        try:
            while open_requests:
                event = await mailbox.get()
                if event.finish is not None:
                    open_requests.discard(event.request)
                    self._mailboxes.pop(event.request, None)
                yield event
        finally:
            for request in open_requests:
                self._mailboxes.pop(request, None)
                if request.state is not State.FINISHED:
                    self.engine.abort(request)

    def _dispatch(self, events: list[Event]) -> None:
        for event in events:
            mailbox = self._mailboxes.get(event.request)
            if mailbox is not None:
                mailbox.put_nowait(event)


def _hand_over(loop: asyncio.AbstractEventLoop, dispatch: object, events: list[Event]) -> None:
    try:
        loop.call_soon_threadsafe(dispatch, events)  # type: ignore[arg-type]
    except RuntimeError:
        # The loop has closed: the server is going down, nobody waits for these events.
        return
