"""The counters in Redis, by way of the link that bindings use."""

from __future__ import annotations

from gateway.affinity.link import StoreLink
from gateway.guard.limits import Verdict


class LinkedWindows:
    """`SharedWindows` over a link."""

    def __init__(self, link: StoreLink, budget_s: float) -> None:
        self._link = link
        self._budget_s = budget_s

    async def take(self, key: str, now_ms: int, limit: int, amount: int, force: bool) -> Verdict | None:
        return await self._link.ask(lambda store: store.take(key, now_ms, limit, amount, force), self._budget_s)
