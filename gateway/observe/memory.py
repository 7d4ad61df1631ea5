"""What each session sent last, so that its next request can be compared with it.

It holds conversations, so it stays in this process: bounded in bytes, the least recently used session goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b

from gateway.canonical.chain import Chain
from gateway.canonical.explain import extends, kinship, shared_links
from gateway.canonical.explain_locate import parts_of
from gateway.observe.gap import Home

LIMIT_BYTES = 64 * 2**20
MAX_TIPS = 3
"""Conversations under one session key that are told apart: branches, and side requests such as one for a title."""
LINK_BYTES = 200
"""What a message costs here besides its text, roughly."""


@dataclass(slots=True, eq=False)
class Tip:
    """The newest request of one branch of a session. Earlier ones are its prefixes."""

    chain: Chain
    tokens: int
    """Estimated from its bytes until an engine has counted."""
    home: Home

    @property
    def cost(self) -> int:
        return self.chain.size + LINK_BYTES * len(self.chain.links)


@dataclass(slots=True)
class _Session:
    tips: list[Tip] = field(default_factory=list)
    """Newest last."""
    opener: bytes = b""


class Memory:
    """Keys are opaque and scoped to their tenant by whoever makes them."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.used_bytes = 0
        self._limit = limit_bytes
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._openers: dict[bytes, str] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def recall(self, key: str, chain: Chain) -> Tip | None:
        """The request of this session that the new one goes on from, or the one that it most resembles."""
        session = self._sessions.get(key)
        return _closest(session.tips, chain) if session else None

    def recall_by_opener(self, tenant: str, chain: Chain) -> Tip | None:
        """The same for a client that names no session and whose known prefix is gone: by its first user message."""
        key = self._openers.get(_opener(tenant, chain))
        return self.recall(key, chain) if key else None

    def remember(self, key: str, tenant: str, tip: Tip) -> None:
        """As the newest request of its branch: in the place of what it extends, and of the oldest beyond the limit."""
        session = self._sessions.setdefault(key, _Session())
        self._sessions.move_to_end(key)
        before = sum(each.cost for each in session.tips)
        others = [each for each in session.tips if not extends(each.chain, tip.chain)]
        session.tips = [*others, tip][-MAX_TIPS:]
        self.used_bytes += sum(each.cost for each in session.tips) - before
        self._index(key, session, _opener(tenant, tip.chain))
        while self.used_bytes > self._limit:
            self._forget(*self._sessions.popitem(last=False))

    def _index(self, key: str, session: _Session, opener: bytes) -> None:
        if session.opener != opener:
            self._unindex(key, session)
            session.opener = opener
        if opener:
            self._openers[opener] = key

    def _unindex(self, key: str, session: _Session) -> None:
        if self._openers.get(session.opener) == key:
            del self._openers[session.opener]

    def _forget(self, key: str, session: _Session) -> None:
        self._unindex(key, session)
        self.used_bytes -= sum(tip.cost for tip in session.tips)


def _closest(tips: list[Tip], chain: Chain) -> Tip:
    """The longest that it extends; else the one with the longest common prefix, and of those the nearest relative."""
    extended = [tip for tip in tips if extends(tip.chain, chain)]
    if extended:
        return max(extended, key=lambda tip: len(tip.chain.links))
    shared = [shared_links(tip.chain, chain) for tip in tips]
    nearest = [tip for tip, links in zip(tips, shared, strict=True) if links == max(shared)]
    if len(nearest) == 1:
        return nearest[0]
    parts = parts_of(chain)
    return max(reversed(nearest), key=lambda tip: kinship(parts_of(tip.chain), parts))


def _opener(tenant: str, chain: Chain) -> bytes:
    """The first message that isn't a system message: it tells conversations apart when their head has changed."""
    if chain.head + 1 >= len(chain.blocks):
        return b""
    return blake2b(chain.blocks[chain.head + 1], key=tenant.encode()[:64], digest_size=16).digest()
