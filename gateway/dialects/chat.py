"""`/v1/chat/completions` as a `Conversation`."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.dialects.base import Body, Conversation, Json, as_list, as_text

PROMPT_OPTIONS = ("chat_template", "chat_template_kwargs", "documents", "preserve_reasoning")
"""Fields of engines that change the rendered prompt ahead of the messages."""

SHARED_ROLES = frozenset({"system", "developer"})


class Chat:
    def parse(self, body: Body) -> Conversation:
        messages = as_list(body.get("messages"))
        return Conversation(
            model=as_text(body.get("model")) or "",
            options={name: body[name] for name in PROMPT_OPTIONS if body.get(name) is not None},
            tools=as_list(body.get("tools")) or as_list(body.get("functions")),
            messages=messages,
            head=_shared_head(messages),
            session=as_text(body.get("prompt_cache_key")),
            user=as_text(body.get("user")),
        )


def _shared_head(messages: Sequence[Json]) -> int:
    for count, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in SHARED_ROLES:
            return count
    return len(messages)
