"""From a conversation to everything that routing needs to know. Pure: no clock, no socket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.affinity.base import Binding, Level, Match
from gateway.affinity.keys import KeySpace, LookupKey, bind_keys, lookup_keys, session_name
from gateway.canonical.chain import Chain
from gateway.canonical.growing import GrowingChains
from gateway.dialects.base import Conversation
from gateway.guard.tenant import Tenant
from gateway.placement.base import RequestView

BYTES_PER_TOKEN = 4
"""For estimates before an engine has counted. English and code lie between 3 and 5."""
_CHAINS = GrowingChains()
"""A memo of a pure function, so all gateways of a process may share it."""


@dataclass(frozen=True, slots=True)
class Plan:
    model: str
    tenant: str
    session: str | None
    """The client's session, scoped to its tenant; None if it names none."""
    chain: Chain
    view: RequestView
    last_end: int | None = None
    """The newest boundary that an earlier request of this conversation can have ended at: before the last answer."""

    @property
    def newest_key(self) -> str | None:
        """A binding of this gateway's own under it is the newest that there is: nobody else has to be asked."""
        return None if self.last_end is None else KeySpace(self.tenant).prefix(self.chain.links[self.last_end].id)

    def lookup(self) -> Sequence[LookupKey]:
        return lookup_keys(KeySpace(self.tenant), self.chain, self.session)

    def lineage(self, match: Match | None) -> str:
        """The conversation's id: its session, else what the found prefix belongs to, else this is a first turn."""
        if self.session:
            return self.session
        if match and match.level is Level.PREFIX:
            return match.binding.lineage
        return self.chain.links[-1].id

    def bindings(
        self, *, replica: str, epoch: str, lineage: str, tokens: int | None, used_ms: int
    ) -> Mapping[str, Binding]:
        """What to remember after a success. `tokens` is the engine's count; parts of it go by their bytes."""
        total = self.view.tokens if tokens is None else tokens
        return {
            key: Binding(replica, epoch, total * size // self.chain.size, lineage, used_ms)
            for key, size in bind_keys(KeySpace(self.tenant), self.chain, self.session)
        }


def plan_request(conversation: Conversation, headers: Mapping[str, str], tenant: Tenant) -> Plan:
    """RecursionError for what is nested too deeply; whatever else is odd goes upstream."""
    chain = _CHAINS.chain(tenant.scope, conversation)
    name = session_name(conversation, headers)
    return Plan(
        model=conversation.model,
        tenant=tenant.scope,
        session=tenant.hide(name) if name else None,
        chain=chain,
        view=_view(chain),
        last_end=_last_end(conversation, chain),
    )


def _last_end(conversation: Conversation, chain: Chain) -> int | None:
    for index in range(len(conversation.messages) - 1, -1, -1):
        message = conversation.messages[index]
        if isinstance(message, dict) and message.get("role") == "assistant":
            before = chain.first_message + index - 1
            return before if before > chain.head else None
    return None


def _view(chain: Chain) -> RequestView:
    head = chain.links[chain.head]
    # Without tools and system messages the head is the root, which is common but holds nothing.
    head_tokens = head.size // BYTES_PER_TOKEN if chain.head else 0
    return RequestView(head.id, max(1, chain.size // BYTES_PER_TOKEN), head_tokens)
