"""Stand-in epochs for servers that announce none (vLLM, SGLang, llama.cpp).

The stand-in is the time a gateway first saw the server, and a new one after it was seen to be gone. Gateways
agree on it through the shared store, or else their bindings would be stale to one another.
"""

from __future__ import annotations

from gateway.affinity.link import StoreLink


class StandInEpochs:
    def __init__(self, link: StoreLink | None, budget_s: float) -> None:
        self._link = link
        self._budget_s = budget_s
        self._own: dict[str, str] = {}

    async def current(self, replica: str, now_ms: int) -> str:
        """The stand-in that holds for the replica now; a new one if nobody has seen it before."""
        own = self._own.setdefault(replica, f"seen-{now_ms}")
        if self._link is not None:
            key = _key(replica)
            shared = await self._link.ask(lambda store: store.first(key, own), self._budget_s)
            self._own[replica] = own = shared or own
        return own

    async def renew(self, replica: str, now_ms: int) -> str:
        """The replica was gone and is back: whatever it held is lost."""
        fresh = self._own[replica] = f"seen-{now_ms}"
        if self._link is not None:
            key = _key(replica)
            await self._link.ask(lambda store: store.replace(key, fresh), self._budget_s)
        return fresh


def _key(replica: str) -> str:
    return f"sapwood:epoch:{replica}"
