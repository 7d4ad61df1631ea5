"""A request's description as a person reads it: what was reused, why this replica, what broke. Pure text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.canonical.explain_classes import BreakClass
from gateway.observe.advice import ADVICE, CAUSES
from gateway.observe.gap import GapCause

Json = Mapping[str, Any]

BAR = 40
_TURNS = {
    "first": "the first of its conversation that this gateway knows",
    "extended": "goes on where the one before ended",
    "regenerated": "the same as one before",
    "branched": "goes on from an earlier point of its session",
    "broken": "does not begin like the one before",
}
_REASONS = {
    "binding": "it holds this conversation",
    "head": "it holds these tools and this system prompt",
    "session": "the session was there before",
    "rendezvous": "all gateways look for it there while the binding store is away",
    "seconds": "it is done soonest",
    "least_loaded": "it has the least to do",
    "round_robin": "it was its turn",
}


def render(request: Json) -> str:
    """From the JSON of `GET /requests/{id}`. What is missing in it is left out."""
    lines = [*_head(request), *_reuse(request), *_replica(request), *_break(request), *_gap(request.get("gap"))]
    return "\n".join(lines)


def _head(request: Json) -> Iterator[str]:
    yield f"request   {request.get('id')}  {request.get('route')}  model {request.get('model')}"
    yield f"session   {request.get('lineage')}"
    if turn := request.get("turn"):
        yield f"turn      {turn}: {_TURNS.get(turn, '')}".rstrip(": ")


def _reuse(request: Json) -> Iterator[str]:
    outcome, placement = request.get("outcome") or {}, request.get("placement") or {}
    prompt, cached = outcome.get("prompt_tokens"), outcome.get("cached_tokens")
    predicted = placement.get("predicted_tokens")
    if prompt and cached is not None:
        full = min(BAR, round(BAR * cached / prompt))
        yield f"reused    [{'#' * full}{'.' * (BAR - full)}] {cached:,} of {prompt:,} tokens ({cached / prompt:.0%})"
    else:
        why = ("the replica did not say" if placement else "no answer") if outcome else "under way"
        yield f"reused    {why}; the prompt has about {request.get('prompt_tokens_estimated'):,} tokens"
    if predicted is not None:
        yield f"predicted {predicted:,} tokens"
    if outcome:
        yield f"answer    {_answer(outcome)}"


def _answer(outcome: Json) -> str:
    times = [("first byte", outcome.get("ttft_ms")), ("total", outcome.get("total_ms"))]
    words = [f"status {outcome.get('status')}"]
    words += [f"error {outcome['error']}"] if outcome.get("error") else []
    words += [str(outcome["finish"])] if outcome.get("finish") else []
    words += [f"{name} {value:,.0f} ms" for name, value in times if value is not None]
    return ", ".join(words)


def _replica(request: Json) -> Iterator[str]:
    placement = request.get("placement")
    if not placement:
        return
    reason = str(placement.get("reason"))
    tries = placement.get("attempts") or 1
    after = f", after {tries - 1} failed" if tries > 1 else ""
    yield f"replica   {placement.get('replica')} ({reason}: {_REASONS.get(reason, 'see the docs')}{after})"
    for other in placement.get("alternatives") or ():
        yield f"          {other['seconds']:8.3f} s  {other['replica']}"


def _break(request: Json) -> Iterator[str]:
    broken = request.get("break")
    if not broken:
        return
    yield ""
    role = f" ({broken['role']})" if broken.get("role") else ""
    yield f"BREAK     {broken.get('class')}: {broken.get('path')}{role}, byte {broken.get('offset')}"
    lost_ms = broken.get("lost_ms_estimated")
    took = f", about {lost_ms:,.0f} ms" if lost_ms is not None else ""
    yield f"lost      about {broken.get('lost_tokens_estimated'):,} tokens{took}"
    yield from _excerpt(broken.get("excerpt"))
    if broken.get("class") in set(BreakClass):
        yield f"advice    {ADVICE[BreakClass(broken['class'])]}"


def _gap(gap: Json | None) -> Iterator[str]:
    if not gap:
        return
    yield ""
    yield f"GAP       {gap.get('cause')}: {gap.get('tokens'):,} tokens that the replica should have held"
    if gap.get("cause") in set(GapCause):
        yield f"advice    {CAUSES[GapCause(gap['cause'])]}"


def _excerpt(excerpt: Json | None) -> Iterator[str]:
    """Both sides, one below the other, with a mark under the first character that differs."""
    if not excerpt:
        yield "          (the gateway's setting `excerpts` shows both sides)"
        return
    before = _shown(excerpt["before"])
    yield f"before    {before}{_shown(excerpt['old'])}"
    yield f"now       {before}{_shown(excerpt['new'])}"
    yield f"          {' ' * len(before)}^"


def _shown(text: str) -> str:
    """On one line and harmless to a terminal."""
    text = text.replace("\n", "⏎").replace("\t", "→")
    return "".join(char if char.isprintable() else "·" for char in text)
