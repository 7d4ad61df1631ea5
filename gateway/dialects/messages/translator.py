"""The dialect itself: a request's exchange and the shape of its errors."""

from __future__ import annotations

from gateway.dialects.base import Body
from gateway.dialects.messages.answer import MessageWriter, Wishes
from gateway.dialects.messages.check import Warnings
from gateway.dialects.messages.errors import error_body
from gateway.dialects.messages.request import chat_request, limit, omits_thinking
from gateway.dialects.translate import Exchange, Failure


class Messages:
    """Anthropic's `/v1/messages`; a `Translator`."""

    def exchange(self, body: Body) -> Exchange:
        warnings = Warnings()
        chat = chat_request(body, warnings)
        wishes = Wishes(
            model=chat["model"],
            stops=frozenset(chat.get("stop", ())),
            omit_thinking=omits_thinking(body),
            mute=limit(body) == 0,
        )
        return Exchange(chat, "stream" in chat, MessageWriter(wishes), warnings.texts())

    def error(self, failure: Failure) -> bytes:
        return error_body(failure)
