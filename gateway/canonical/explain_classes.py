"""Why a prompt no longer begins as it did: the class of a difference. Pure rules, the telling ones first."""

from __future__ import annotations

import json
import re
from enum import StrEnum

from gateway.canonical.explain_locate import Difference, Part, Parts, role_of, text_of, tool_name
from gateway.canonical.explain_text import (
    MIN_MOVED_CHARS,
    part_in_billing_line,
    part_in_moment,
    part_in_reminder,
    part_in_space,
    part_in_volatile_line,
    removed,
    tells_of_a_summary,
)

_SYSTEM_ROLES = frozenset({"system", "developer"})
_REASONING = re.compile(r"messages\[\d+\]\.(?:reasoning|thinking)|\.(?:reasoning|thinking|signature)$")
_THOUGHT = re.compile(r"<think>.*?</think>\s*", re.DOTALL)


class BreakClass(StrEnum):
    """Stable names: they are labels of a metric and words of a header."""

    MODEL_CHANGED = "model_changed"
    OPTIONS_CHANGED = "options_changed"
    TOOLS_REORDERED = "tools_reordered"
    TOOLS_ADDED = "tools_added"
    TOOLS_REMOVED = "tools_removed"
    TOOLS_CHANGED = "tools_changed"
    """A tool's definition."""
    BILLING_HEADER = "billing_header"
    """A client's line for its vendor's accounting, in front of the system prompt."""
    TIMESTAMP = "timestamp"
    """A date or a time, wherever it stands."""
    VOLATILE_LINE = "volatile_line"
    """A line of the system prompt or of a tool in which only numbers or ids change: a counter, a process, a path."""
    WHITESPACE = "whitespace"
    SYSTEM_CHANGED = "system_changed"
    REASONING_STRIPPED = "reasoning_stripped"
    REASONING_CHANGED = "reasoning_changed"
    ARGUMENTS_REWRITTEN = "arguments_rewritten"
    """A tool call's arguments come back otherwise than they were sent before."""
    TOOL_RESULT_CHANGED = "tool_result_changed"
    """Cut, elided or replaced after it was sent."""
    REMINDER_MOVED = "reminder_moved"
    """A reminder of the client's own: moved to the newest message, taken out or rewritten."""
    HISTORY_TRUNCATED = "history_truncated"
    """Messages were dropped in front of others that stayed."""
    HISTORY_COMPACTED = "history_compacted"
    """Messages gave way to a summary."""
    HISTORY_EDITED = "history_edited"
    """Anything else."""


def classify(old: Parts, new: Parts, difference: Difference) -> BreakClass:
    if difference.part is Part.ROOT:
        return BreakClass.MODEL_CHANGED if difference.path == "model" else BreakClass.OPTIONS_CHANGED
    if difference.part is Part.TOOLS:
        if found := _of_tools(old.tools, new.tools) or _of_text(difference):
            return found
        return BreakClass.VOLATILE_LINE if _in_volatile_line(difference) else BreakClass.TOOLS_CHANGED
    return _of_order(old, new, difference.index) or _of_field(old, new, difference)


def _of_tools(old: tuple[bytes, ...], new: tuple[bytes, ...]) -> BreakClass | None:
    if sorted(old) == sorted(new):
        return BreakClass.TOOLS_REORDERED
    before, after = ({tool_name(json.loads(tool)) for tool in tools} for tools in (old, new))
    if before < after:
        return BreakClass.TOOLS_ADDED
    return BreakClass.TOOLS_REMOVED if before > after else None


def _of_order(old: Parts, new: Parts, index: int) -> BreakClass | None:
    """What dropped, moved and inserted whole messages tell."""
    before, after = old.messages[index:], new.messages[index:]
    if _is_compacted(before, after, shrank=len(new.messages) < len(old.messages)):
        return BreakClass.HISTORY_COMPACTED
    if _is_truncated(before, after):
        return BreakClass.HISTORY_TRUNCATED
    if len(before) <= 2 and len(after) > len(before) and after[-len(before) :] == before and not _by_assistant(before):
        return BreakClass.REMINDER_MOVED
    return None


def _is_compacted(before: tuple[bytes, ...], after: tuple[bytes, ...], *, shrank: bool) -> bool:
    """One or two new messages in the place of many. They call themselves a summary, or the old end follows them."""
    if not shrank:
        return False
    inserted = [text_of(json.loads(message)) for message in after[:2] if message not in before]
    if any(tells_of_a_summary(text) for text in inserted):
        return True
    kept = after[len(inserted) :]
    return bool(inserted) and len(kept) >= 2 and any(_continues(before[at:], kept) for at in range(1, len(before)))


def _is_truncated(before: tuple[bytes, ...], after: tuple[bytes, ...]) -> bool:
    """Whether the new one goes on with a later part of the old one: at least two of its last messages."""
    return any(_continues(before[at:], after) for at in range(1, len(before) - 1))


def _continues(tail: tuple[bytes, ...], after: tuple[bytes, ...]) -> bool:
    return len(tail) >= 2 and after[: len(tail)] == tail


def _by_assistant(messages: tuple[bytes, ...]) -> bool:
    return any(role_of(json.loads(message)) == "assistant" for message in messages)


def _of_field(old: Parts, new: Parts, difference: Difference) -> BreakClass:
    counterpart = json.loads(new.messages[difference.index])
    if _is_reasoning(difference):
        return BreakClass.REASONING_CHANGED if difference.new else BreakClass.REASONING_STRIPPED
    if _lost_its_thoughts(difference):
        return BreakClass.REASONING_STRIPPED
    if difference.path.endswith(".function.arguments"):
        return BreakClass.ARGUMENTS_REWRITTEN
    if (found := _of_text(difference)) is not None:
        return found
    if _is_reminder(difference, new.messages[difference.index + 1 :]):
        return BreakClass.REMINDER_MOVED
    roles = {difference.role, role_of(counterpart)}
    if roles <= _SYSTEM_ROLES or (roles & _SYSTEM_ROLES and difference.index <= min(old.head, new.head)):
        return BreakClass.VOLATILE_LINE if _in_volatile_line(difference) else BreakClass.SYSTEM_CHANGED
    return BreakClass.TOOL_RESULT_CHANGED if roles == {"tool"} else BreakClass.HISTORY_EDITED


def _of_text(difference: Difference) -> BreakClass | None:
    old, new, at = difference.old, difference.new, difference.at
    if part_in_billing_line(old, new, at):
        return BreakClass.BILLING_HEADER
    if part_in_moment(old, new, at):
        return BreakClass.TIMESTAMP
    return BreakClass.WHITESPACE if old and new and part_in_space(old, new) else None


def _in_volatile_line(difference: Difference) -> bool:
    return part_in_volatile_line(difference.old, difference.new, difference.at)


def _is_reasoning(difference: Difference) -> bool:
    return difference.role == "assistant" and _REASONING.search(difference.path) is not None


def _lost_its_thoughts(difference: Difference) -> bool:
    """Thoughts that stood in the content, in tags, and are gone."""
    if difference.role != "assistant" or "<think>" not in difference.old:
        return False
    return _THOUGHT.sub("", difference.old).strip() == difference.new.strip()


def _is_reminder(difference: Difference, later: tuple[bytes, ...]) -> bool:
    """A tagged reminder, or words that were taken out here and stand in a later message."""
    if difference.role == "assistant":
        return False
    old, new, at = difference.old, difference.new, difference.at
    if part_in_reminder(old, new, at):
        return True
    words = removed(old, new, at)
    return len(words) >= MIN_MOVED_CHARS and any(words in text_of(json.loads(message)) for message in later)
