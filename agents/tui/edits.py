"""What an edit changes, read off a call's arguments before it ran, or off its result."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.export.diffs import Change, lines_of

_PATCHES = ("patch", "diff", "input")
"""Arguments that patch tools take their patch in."""


@dataclass(frozen=True)
class Proposal:
    diff: str
    shows: frozenset[str]
    """The arguments that can be read in the diff."""


def proposed(arguments: Mapping[str, Any]) -> Proposal | None:
    """The change as a diff, or None for a call that edits nothing."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    file = next((name for name in ("path", "file") if texts.get(name)), "")
    path = texts.get(file, "file")
    if {"old", "new"} <= texts.keys():
        diff = _diff(texts["old"], texts["new"], f"a/{path}", f"b/{path}")
        return Proposal(diff, frozenset({"old", "new", file}))
    if "content" in texts:
        return Proposal(_diff("", texts["content"], "before", f"b/{path}"), frozenset({"content", file}))
    patch = next((name for name in _PATCHES if lines_of(texts.get(name, ""))), None)
    return Proposal(texts[patch], frozenset({patch})) if patch else None


def done(arguments: Mapping[str, Any], result: str) -> str | None:
    """What a call has changed: the diff that its result shows, else what was proposed."""
    if lines_of(result):
        return result
    proposal = proposed(arguments)
    return proposal.diff if proposal else None


def size(diff: str) -> str:
    """Lines added and removed, as `+3 -1`."""
    counts = [sum(change.change is kind for change in lines_of(diff)) for kind in (Change.ADDED, Change.REMOVED)]
    return "+{} -{}".format(*counts)


def _diff(old: str, new: str, before: str, after: str) -> str:
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), before, after, n=2, lineterm=""))
