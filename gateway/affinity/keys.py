"""Names: which session a request belongs to, and under which keys its bindings are stored.

Every key of a tenant holds the same `{hash tag}`, so one request's keys lie in one slot of a Redis Cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.affinity.base import Level
from gateway.canonical.chain import Chain
from gateway.dialects.base import Conversation

SESSION_HEADERS = ("x-sapwood-session", "x-session-id", "session-id")
CLAUDE_SESSION = "x-claude-code-session-id"
CLAUDE_AGENT = "x-claude-code-agent-id"
LITELLM_SESSION = "x-litellm-session-id"

MAX_BOUNDARIES = 64
"""How far back a look-up goes. A session's next turn is found among the newest few."""


def session_name(conversation: Conversation, headers: Mapping[str, str]) -> str | None:
    """The client's own name for the session, by the first of the known fields that is set."""
    if conversation.session:
        return conversation.session
    for header in SESSION_HEADERS:
        if headers.get(header):
            return headers[header]
    if headers.get(CLAUDE_SESSION):
        return f"{headers[CLAUDE_SESSION]}/{headers.get(CLAUDE_AGENT, '')}"
    return headers.get(LITELLM_SESSION) or conversation.user


@dataclass(frozen=True, slots=True)
class KeySpace:
    """The keys of one tenant."""

    scope: str

    def prefix(self, prefix_id: str) -> str:
        return f"sapwood:{{{self.scope}}}:p:{prefix_id}"

    def session(self, session_id: str) -> str:
        return f"sapwood:{{{self.scope}}}:s:{session_id}"


class LookupKey(NamedTuple):
    key: str
    level: Level


def lookup_keys(space: KeySpace, chain: Chain, session_id: str | None) -> list[LookupKey]:
    """What to ask for, best answer first: own boundaries newest first, the session, the shared head."""
    own, stem = range(len(chain.links) - 1, chain.head, -1)[:MAX_BOUNDARIES], space.prefix("")
    keys = [LookupKey(stem + chain.links[index].id, Level.PREFIX) for index in own]
    if session_id:
        keys.append(LookupKey(space.session(session_id), Level.SESSION))
    if chain.head > 0:
        keys.append(LookupKey(space.prefix(chain.links[chain.head].id), Level.HEAD))
    return keys


def bind_keys(space: KeySpace, chain: Chain, session_id: str | None) -> Sequence[tuple[str, int]]:
    """Where to write after a success: key and canonical size for each anchor, and for the session."""
    keys = [(space.prefix(chain.links[index].id), chain.links[index].size) for index in chain.anchors]
    return [*keys, (space.session(session_id), chain.size)] if session_id else keys
