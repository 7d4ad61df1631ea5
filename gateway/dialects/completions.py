"""`/v1/completions` as a `Conversation`: a prompt has no turns, so it is cut at fixed distances.

A longer prompt repeats every full block of a shorter one that it begins with, which gives text the same
prefix property that messages have. The last, partial block is kept so that an exact repeat is known too.
"""

from __future__ import annotations

from gateway.dialects.base import Body, Conversation, Json, as_text

BLOCK_CHARS = 2048
BLOCK_IDS = 512


class Completions:
    def parse(self, body: Body) -> Conversation:
        return Conversation(
            model=as_text(body.get("model")) or "",
            options={},
            tools=(),
            messages=_blocks(body.get("prompt")),
            head=0,
            growing=True,
            session=as_text(body.get("prompt_cache_key")),
            user=as_text(body.get("user")),
        )


def _blocks(prompt: Json) -> list[Json]:
    """Text in blocks of characters, token ids in blocks of ids, a batch of prompts as one block."""
    if prompt is None or prompt in ("", []):
        return []
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        return _blocks(prompt[0])
    if isinstance(prompt, str):
        return [prompt[at : at + BLOCK_CHARS] for at in range(0, len(prompt), BLOCK_CHARS)]
    if isinstance(prompt, list) and all(type(item) is int for item in prompt):
        return [prompt[at : at + BLOCK_IDS] for at in range(0, len(prompt), BLOCK_IDS)]
    return [prompt]
