"""The rules as the proxy uses them: applied in their order, with what they remember of each session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from gateway.canonical.form import canonical_message
from gateway.dialects.base import Body
from gateway.errors import invalid_json
from gateway.rewrite.base import Edit, Note, RuleName, split_head
from gateway.rewrite.billing import drop_billing_header
from gateway.rewrite.freeze import FrozenTools, freeze_tools
from gateway.rewrite.heard import Listener
from gateway.rewrite.memory import Memory
from gateway.rewrite.reasoning import Thought, answer_digest, keep_reasoning, thought_in
from gateway.rewrite.timestamps import freeze_timestamps
from gateway.rewrite.tools import sort_schema_keys, sort_tools
from gateway.rewrite.volatile import SystemLines, move_volatile_lines

log = logging.getLogger("sapwood.gateway")

LIMIT_BYTES = 32 * 2**20
"""Of each rule's memory."""


@dataclass(frozen=True, slots=True)
class Session:
    """Whose request it is. Rules of one tenant never see what another's have remembered."""

    tenant: str
    name: str | None
    """The client's own, scoped; None if it names none: then the first message tells conversations apart."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    body: Body
    notes: tuple[Note, ...] = ()
    """Of the rules that changed something."""
    heard: Heard | None = None
    """Who must hear the upstream's answer, if anybody must."""


class Heard:
    """Listens to the answer of one request, so that its reasoning can be put back later."""

    def __init__(self, remember: Callable[[Body], None]) -> None:
        self._listener = Listener()
        self.feed = self._listener.feed
        self._remember = remember

    def ended(self, is_stream: bool) -> None:
        message = self._listener.message(is_stream)
        if message is not None:
            self._remember(message)


class Rewriter:
    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._lines: Memory[bytes, SystemLines] = Memory(limit_bytes)
        self._tools: Memory[bytes, FrozenTools] = Memory(limit_bytes)
        self._thoughts: Memory[tuple[str, bytes], Thought] = Memory(limit_bytes)
        self._rules: Mapping[RuleName, Callable[[Body, Session], Edit]] = {
            RuleName.DROP_BILLING_HEADER: lambda body, _: drop_billing_header(body),
            RuleName.FREEZE_TIMESTAMPS: lambda body, _: freeze_timestamps(body),
            RuleName.KEEP_REASONING: self._keep_reasoning,
            RuleName.MOVE_VOLATILE_LINES: self._move_volatile_lines,
            RuleName.SORT_TOOLS: lambda body, _: sort_tools(body),
            RuleName.SORT_SCHEMA_KEYS: lambda body, _: sort_schema_keys(body),
            RuleName.FREEZE_TOOLS: self._freeze_tools,
        }

    def rewrite(self, body: Body, rules: Collection[RuleName], session: Session) -> Rewritten:
        """GatewayError `invalid_json` for what is nested too deeply."""
        notes: list[Note] = []
        heard: Heard | None = None
        try:
            for rule in (rule for rule in RuleName if rule in rules):
                edit = self._rules[rule](body, session)
                body = edit.body
                notes += [Note(rule, edit.changed)] if edit.changed else []
                if rule is RuleName.KEEP_REASONING:  # later rules change what the next turn begins with
                    heard = Heard(partial(self._remember_answer, body, session))
        except RecursionError:
            raise invalid_json("is nested too deeply") from None
        for note in notes:
            log.debug("rewrite rule %s changed %d bytes", note.rule.value, note.changed)
        return Rewritten(body, tuple(notes), heard)

    def _remember_answer(self, body: Body, session: Session, message: Body) -> None:
        thought = thought_in(message)
        if thought is not None:
            self._thoughts.remember((session.tenant, answer_digest(body, message)), thought)

    def _keep_reasoning(self, body: Body, session: Session) -> Edit:
        return keep_reasoning(body, lambda digest: self._thoughts.recall((session.tenant, digest)))

    def _move_volatile_lines(self, body: Body, session: Session) -> Edit:
        key = conversation_key(body, session)
        edit, known = move_volatile_lines(body, self._lines.recall(key) if goes_on(body) else None)
        if known is not None:
            self._lines.remember(key, known)
        return edit

    def _freeze_tools(self, body: Body, session: Session) -> Edit:
        key = conversation_key(body, session)
        edit, frozen = freeze_tools(body, self._tools.recall(key) if goes_on(body) else None)
        if frozen is not None:
            self._tools.remember(key, frozen)
        return edit


def goes_on(body: Body) -> bool:
    """Whether there is an earlier turn. A conversation's first begins anew, though another began like it before."""
    return any(isinstance(message, dict) and message.get("role") == "assistant" for message in split_head(body)[1])


def conversation_key(body: Body, session: Session) -> bytes:
    """A session's side requests, such as one for a title, begin with another message."""
    opener = b"".join(canonical_message(message) for message in split_head(body)[1][:1])
    owner = f"{session.tenant}\0{session.name or ''}\0{body.get('model')}\0".encode("utf-8", "surrogatepass")
    return blake2b(owner + opener, digest_size=16).digest()
