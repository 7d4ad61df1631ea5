"""`drop_billing_header`: the first line of the system prompt by which one client tells its vendor what it is.

It has a hash that differs between conversations, and between requests in some releases, so that nothing behind it is
found in a cache. No model needs it.
"""

from __future__ import annotations

import re

from gateway.dialects.base import Body
from gateway.rewrite.base import Edit, size_of, split_head, with_texts

_LINES = re.compile(r"\A(?:\s*x-anthropic-billing-header:[^\n]*(?:\n\s*|\Z))+")


def drop_billing_header(body: Body) -> Edit:
    head, rest = split_head(body)
    dropped = 0

    def shorten(text: str) -> str | None:
        nonlocal dropped
        found = _LINES.match(text)
        if found is None:
            return text
        dropped += size_of(found.group())
        return text[found.end() :] or None

    kept = [message for message in (with_texts(message, shorten) for message in head) if message is not None]
    return Edit({**body, "messages": [*kept, *rest]}, dropped) if dropped else Edit(body)
