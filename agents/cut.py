"""Long outputs are cut once, when they are created, and never again: what was sent stays as it was."""

from __future__ import annotations


def cut(text: str, limit: int) -> str:
    """At most about `limit` characters: two fifths of them from the head and the rest from the tail."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 5, limit - limit * 2 // 5
    gone = len(text) - head - tail
    return f"{text[:head]}\n… {gone} characters cut …\n{text[-tail:]}"
