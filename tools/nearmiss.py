"""Finds the lines of a text that come closest to what was searched for in vain."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from tools.text import lines_of

_MAX_LINES = 5000
_MAX_WANTED = 4000
_ENOUGH = 0.6


@dataclass(frozen=True)
class NearMiss:
    """The closest run of lines, counted from 1, and whether it differs by white space alone."""

    first: int
    lines: list[str]
    only_whitespace: bool


def closest(text: str, wanted: str) -> NearMiss | None:
    """The run of as many lines as `wanted` that is most like it; None if nothing is much like it."""
    lines, target = lines_of(text)[:_MAX_LINES], lines_of(wanted[:_MAX_WANTED].strip("\n"))
    size = len(target)
    if not size or size > len(lines):
        return None
    goal = _squeezed(target)
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(goal)
    best, found = _ENOUGH, None
    for first in range(len(lines) - size + 1):
        window = _squeezed(lines[first : first + size])
        if window == goal:
            return NearMiss(first + 1, lines[first : first + size], only_whitespace=True)
        matcher.set_seq1(window)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, found = matcher.ratio(), first
    return None if found is None else NearMiss(found + 1, lines[found : found + size], only_whitespace=False)


def _squeezed(lines: list[str]) -> str:
    return "\n".join(" ".join(line.split()) for line in lines)
