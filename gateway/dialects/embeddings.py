"""`/v1/embeddings` as a `Conversation`: nothing of it is kept by any cache, so that any replica will do."""

from __future__ import annotations

from gateway.dialects.base import Body, Conversation, as_text


class Embeddings:
    def parse(self, body: Body) -> Conversation:
        return Conversation(
            model=as_text(body.get("model")) or "",
            options={},
            tools=(),
            messages=(),
            head=0,
            user=as_text(body.get("user")),
        )
