"""What an answer says of itself: token counts and why it ended.

`input_tokens` are the prompt's tokens that were computed, `cache_read_input_tokens` those that came out of the cache;
the sum is the prompt. `cache_creation_input_tokens` is 0: everything that is computed stays in the cache, without a
price or a mark of its own, and counting it there would leave no input at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.dialects.messages.sequence import Block, Kind


def usage_of(usage: Any) -> dict[str, Any]:
    """Anthropic's usage for a chat usage; what isn't said, or makes no sense, is 0."""
    said = usage if isinstance(usage, Mapping) else {}
    prompt = _count(said.get("prompt_tokens"))
    cached = min(_count(_detail(said, "prompt_tokens_details", "cached_tokens")), prompt)
    counts: dict[str, Any] = {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": _count(said.get("completion_tokens")),
    }
    thinking = _count(_detail(said, "completion_tokens_details", "reasoning_tokens"))
    return counts | ({"output_tokens_details": {"thinking_tokens": thinking}} if thinking else {})


def matched_stop(choice: Mapping[str, Any], stops: frozenset[str]) -> str | None:
    """The stop sequence that ended the answer: vLLM's field, or SGLang's."""
    for field in ("stop_reason", "matched_stop"):
        value = choice.get(field)
        if isinstance(value, str) and value in stops:
            return value
    return None


def stop_reason(finish: str | None, stop: str | None, blocks: Sequence[Block]) -> str:
    """A call whose arguments are no JSON object is an answer that was cut, whatever the upstream says: a client must
    not run it."""
    if finish == "content_filter":
        return "refusal"
    if finish == "length" or any(block.is_broken for block in blocks):
        return "max_tokens"
    if any(block.kind is Kind.TOOL for block in blocks):
        return "tool_use"
    return "end_turn" if stop is None else "stop_sequence"


def _detail(usage: Mapping[str, Any], group: str, name: str) -> Any:
    details = usage.get(group)
    return details.get(name) if isinstance(details, Mapping) else None


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
