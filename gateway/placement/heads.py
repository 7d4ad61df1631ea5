"""Which replicas hold a shared head (tools and system messages), or are about to compute it.

A binding names one replica, the newest. A head that many conversations share soon lies on several, and the siblings
of a burst come before any of them has an answer; so what was sent where is remembered here, by this gateway alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from gateway.affinity.base import Binding, Level, Match

MAX_HEADS = 4096
MAX_HOLDERS = 64


class Heads:
    def __init__(self) -> None:
        self._sent: OrderedDict[str, OrderedDict[str, Binding]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sent)

    def sent(self, head: str, tokens: int, url: str, epoch: str, now_ms: int) -> None:
        """A request with this head goes to the replica."""
        if not tokens:
            return
        holders = self._sent.setdefault(head, OrderedDict())
        self._sent.move_to_end(head)
        holders[url] = Binding(url, epoch, tokens, "", now_ms)
        holders.move_to_end(url)
        while len(holders) > MAX_HOLDERS:
            holders.popitem(last=False)
        while len(self._sent) > MAX_HEADS:
            self._sent.popitem(last=False)

    def matches(self, head: str) -> Sequence[Match]:
        return [Match(Level.HEAD, binding) for binding in self._sent.get(head, {}).values()]
