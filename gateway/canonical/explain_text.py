"""What two texts have in common, and what kind of text lies where they part."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T", str, bytes)

EXCERPT_CHARS = 40
BILLING_LINE = "x-anthropic-billing-header"
MIN_MOVED_CHARS = 24

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_MOMENT = re.compile(
    rf"""
      \d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}                                  # 2026-12-01
        (?:[T\ ]\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?(?:\ ?Z|\ ?[+-]\d{{2}}:?\d{{2}})?)?
    | \b\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}\b                              # 12/1/2026
    | \b\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d+)?)?(?:\s?[AaPp]\.?[Mm]\b)?  # 05:26:16, 5:26 PM
    | \b(?:Mon|Tue(?:s)?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b
    | \b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}}\b)?          # December 1, 2026
    | \b\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}(?:,?\s+\d{{4}}\b)?            # 1 Dec 2026
    | \b1\d{{9}}(?:\d{{3}})?(?:\.\d+)?\b                                   # seconds or milliseconds since 1970
    """,
    re.VERBOSE,
)
_WITH_DIGITS = re.compile(r"[\w-]*\d[\w-]*")
_REMINDER = re.compile(r"<(/?)(?:[a-z]+[-_])*(?:reminder|environment_details|environment_context)\b")
_SUMMARY = re.compile(r"\b(?:summar(?:y|ised|ized)|compacted|condensed|continued from a previous)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Where two texts part: what stands before in both, and how each goes on."""

    before: str
    old: str
    new: str


def common_length(one: T, other: T) -> int:
    """Length of the longest common prefix. By halves, as comparing slices is far cheaper than a loop."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_tail(one: str, other: str, at: int) -> int:
    """Length of the longest common suffix that begins behind `at`, the end of the common prefix."""
    return common_length(one[at:][::-1], other[at:][::-1])


def alike(one: str, other: str) -> bool:
    """Whether they are versions of one text: at least half of the shorter one is in both, at its ends."""
    at = common_length(one, other)
    return 2 * (at + common_tail(one, other, at)) >= max(1, min(len(one), len(other)))


def byte_offset(text: str, at: int) -> int:
    return len(text[:at].encode("utf-8", "surrogatepass"))


def excerpt(old: str, new: str, at: int) -> Excerpt:
    start, end = max(0, at - EXCERPT_CHARS), at + EXCERPT_CHARS
    return Excerpt(old[start:at], old[at:end], new[at:end])


def part_in_billing_line(old: str, new: str, at: int) -> bool:
    return any(_line(text, at).lstrip().startswith(BILLING_LINE) for text in (old, new))


def part_in_moment(old: str, new: str, at: int) -> bool:
    """Whether the first difference lies in a date or a time on both sides."""
    one, other = _moment(old, at), _moment(new, at)
    return one is not None and other is not None and one != other


def part_in_volatile_line(old: str, new: str, at: int) -> bool:
    """Whether the line in which the texts part is the same on both sides but for words that hold digits."""
    one, other = _line(old, at), _line(new, at)
    return one != other and _WITH_DIGITS.sub("0", one) == _WITH_DIGITS.sub("0", other)


def part_in_space(old: str, new: str) -> bool:
    """Whether nothing but white space differs."""
    return "".join(old.split()) == "".join(new.split())


def part_in_reminder(old: str, new: str, at: int) -> bool:
    """Whether a tagged reminder was added, taken out or rewritten where the texts part."""
    tail = common_tail(old, new, at)
    changed = (text[max(0, at - EXCERPT_CHARS) : max(at, len(text) - tail)] for text in (old, new))
    return any(_REMINDER.search(piece) for piece in changed) or _opened(old[:at])


def removed(old: str, new: str, at: int) -> str:
    """What the old text says and the new one leaves out; nothing if something else stands there instead."""
    tail = common_tail(old, new, at)
    return "" if len(new) - tail > at else old[at : len(old) - tail].strip()


def tells_of_a_summary(text: str) -> bool:
    return _SUMMARY.search(text[:2000]) is not None


def _opened(text: str) -> bool:
    """Whether the text ends inside a reminder."""
    tags = list(_REMINDER.finditer(text))
    return bool(tags) and not tags[-1][1]


def _line(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else len(text)]


def _moment(text: str, at: int) -> str | None:
    start = max(0, at - EXCERPT_CHARS)
    for match in _MOMENT.finditer(text[start : at + EXCERPT_CHARS]):
        if match.start() <= at - start <= match.end():
            return match[0]
    return None
