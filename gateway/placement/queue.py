"""Who waits for a replica with room, and who is next. Pure: no clock, no task.

Interactive requests go before batch ones, and within a priority the first come goes first. Requests that want the
same (a `group`, such as a model) are kept together, so that one whose replicas are full holds up only its like.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

G = TypeVar("G", bound=Hashable)
V = TypeVar("V")


class Priority(StrEnum):
    """In the order in which they are served."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class Full(Exception):
    """The queue is at its bound."""


@dataclass(slots=True, eq=False)
class Ticket(Generic[G, V]):
    number: int
    group: G
    priority: Priority
    value: V = field(repr=False)


class Queue(Generic[G, V]):
    """Every ticket that joined is called once or leaves once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._joined = 0
        self._lanes: dict[Priority, dict[G, dict[int, Ticket[G, V]]]] = {priority: {} for priority in Priority}
        self._waiting = dict.fromkeys(Priority, 0)

    def __len__(self) -> int:
        return sum(self._waiting.values())

    def waiting(self, priority: Priority) -> int:
        return self._waiting[priority]

    def join(self, group: G, priority: Priority, value: V) -> Ticket[G, V]:
        """Full if as many as may wait already do."""
        if len(self) >= self.limit:
            raise Full
        self._joined += 1
        ticket = Ticket(self._joined, group, priority, value)
        self._lanes[priority].setdefault(group, {})[ticket.number] = ticket
        self._waiting[priority] += 1
        return ticket

    def leave(self, ticket: Ticket[G, V]) -> bool:
        """False if it was called or had left before."""
        lane = self._lanes[ticket.priority].get(ticket.group, {})
        if lane.pop(ticket.number, None) is None:
            return False
        if not lane:
            del self._lanes[ticket.priority][ticket.group]
        self._waiting[ticket.priority] -= 1
        return True

    def call(self, has_room: Callable[[G], bool]) -> Ticket[G, V] | None:
        """The next of those for whose group there is room; it no longer waits."""
        for priority in Priority:
            heads = sorted(self._heads(priority), key=lambda ticket: ticket.number)
            for ticket in heads:
                if has_room(ticket.group):
                    self.leave(ticket)
                    return ticket
        return None

    def _heads(self, priority: Priority) -> Iterator[Ticket[G, V]]:
        return (next(iter(lane.values())) for lane in self._lanes[priority].values())
