"""Who holds how much of something that all tenants share, and who holds the most."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

_STALE_AT_MOST = 64


class Shares:
    """Amounts by owner. Every operation takes O(log n) of the owners (amortised).

    Whoever holds the most holds more than an equal share of what is too much in all: to take from that one only is
    to leave everybody alone who is within an equal share.
    """

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []  # (-amount, owner), once for each change: the old ones are stale
        self.total = 0

    def __len__(self) -> int:
        """How many hold anything."""
        return len(self._held)

    def of(self, owner: str) -> int:
        return self._held.get(owner, 0)

    def add(self, owner: str, amount: int) -> None:
        """`amount` may be negative."""
        held = self.of(owner) + amount
        self.total += amount
        if held:
            self._held[owner] = held
            heappush(self._heap, (-held, owner))
        else:
            self._held.pop(owner, None)
        if len(self._heap) > 2 * len(self._held) + _STALE_AT_MOST:
            self._heap = [(-held, owner) for owner, held in self._held.items()]
            heapify(self._heap)

    def largest(self) -> str:
        """The owner who holds the most; of several, the first by name. Raises LookupError where nobody holds any."""
        while self._heap:
            amount, owner = self._heap[0]
            if self.of(owner) == -amount:
                return owner
            heappop(self._heap)
        raise LookupError("nobody holds anything")
