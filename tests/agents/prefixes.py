"""Whether what was asked kept its prefixes: the rule that every run of the agent is held to."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable

_MESSAGES, _TOOLS = re.compile(r'"messages":\s*'), re.compile(r'"tools":\s*')


def breaks(asked: Iterable[tuple[str, bytes]]) -> list[str]:
    """Where a request (session name and body, in their order) did not say again, to the byte, what was said before.

    A session's requests each extend the one before. The first of a branch, sub-agent, fork or compacted conversation
    (`NAME.label`) extends one of the session that it comes from. Tools never change.
    """
    said: dict[str, list[tuple[str, str]]] = defaultdict(list)
    broken = []
    for number, (session, raw) in enumerate(asked):
        if not session:
            continue
        messages, tools = _part(raw, _MESSAGES), _part(raw, _TOOLS)
        if said[session]:
            before = said[session][-1:]
        else:
            before = [request for name in _ancestors(session) for request in said[name]]
        if before and not any(_extends(messages, old) and tools == same for old, same in before):
            broken.append(f"request {number} of session {session}")
        said[session].append((messages, tools))
    return broken


def _extends(messages: str, before: str) -> bool:
    return messages == before or (messages.startswith(before[:-1]) and messages[len(before) - 1] == ",")


def _ancestors(session: str) -> list[str]:
    labels = session.split(".")
    return [".".join(labels[:length]) for length in range(1, len(labels))]


def _part(raw: bytes, key: re.Pattern[str]) -> str:
    """The text of a top-level value, as it was sent; empty where there is none."""
    text = raw.decode()
    found = key.search(text)
    return text[found.end() : json.JSONDecoder().raw_decode(text, found.end())[1]] if found else ""
