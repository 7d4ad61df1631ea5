"""Token counts and logprobs in OpenAI's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.core import Event
from engine.prompt.tokenizer import Tokenizer
from engine.sample.sampler import Sampled
from engine.schedule.request import Request


def usage(requests: Sequence[Request]) -> dict[str, Any]:
    """Of one prompt and its choices. `cached_tokens` counts what the first choice did not compute."""
    prompt = len(requests[0].prompt)
    completion = sum(request.generated for request in requests)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": requests[0].cached or 0},
    }


def total_usage(groups: Sequence[Sequence[Request]]) -> dict[str, Any]:
    """Of several prompts."""
    parts = [usage(group) for group in groups]
    total = {key: sum(part[key] for part in parts) for key in ("prompt_tokens", "completion_tokens", "total_tokens")}
    cached = sum(part["prompt_tokens_details"]["cached_tokens"] for part in parts)
    return {**total, "prompt_tokens_details": {"cached_tokens": cached}}


def reported(event: Event) -> Sampled | None:
    """The token whose log-probability is told: not one that only ends the answer, which isn't in its text."""
    sampled = event.sampled
    if sampled is None or sampled.logprob is None or sampled.token in event.request.stop_ids:
        return None
    return sampled


def chat_logprob(event: Event, tokenizer: Tokenizer) -> dict[str, Any] | None:
    """One entry of `logprobs.content`; None where the request asked for none. `forced` marks what wasn't sampled."""
    sampled = reported(event)
    if sampled is None or sampled.logprob is None:
        return None
    top = [_entry(token, logprob, tokenizer) for token, logprob in sampled.top or []]
    mark = {"forced": True} if sampled.forced else {}
    return {**_entry(sampled.token, sampled.logprob, tokenizer), "top_logprobs": top, **mark}


def token_text(token: int, tokenizer: Tokenizer) -> str:
    """A token by itself; bytes that are only a part of a character are written like `\\xe2`, as OpenAI does."""
    return tokenizer.token_bytes(token).decode(errors="backslashreplace")


def _entry(token: int, logprob: float, tokenizer: Tokenizer) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token)
    return {"token": token_text(token, tokenizer), "logprob": logprob, "bytes": list(raw)}
