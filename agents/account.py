"""What each turn reused, and why not more: the session's own counts beside what the gateway saw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.state import State, Turn

BAR = 24


def account(state: State, seen: Mapping[str, Any] | None) -> list[str]:
    """A line for each turn, oldest first; `seen` is the gateway's JSON of the session, None where there is none."""
    lines = [_line(turn) for turn in state.turns]
    known = [turn for turn in state.turns if turn.computed is not None]
    if known:
        prompt, cached = sum(turn.prompt or 0 for turn in known), sum(turn.cached or 0 for turn in known)
        lines.append(f"all       {_bar(cached, prompt)}  {cached:,} of {prompt:,} tokens reused")
    if seen is None:
        return [*lines, "The endpoint is no Sapwood gateway, so nobody knows more than these counts."] if lines else []
    requests = [request for request in reversed(seen["requests"]) if isinstance(request, Mapping)]
    return [*lines, *(line for request in requests for line in _trouble(request))]


def _line(turn: Turn) -> str:
    what = ", ".join(turn.calls) or "answer"
    if turn.prompt is None or turn.cached is None:
        return f"turn {turn.number:<4} the server does not say what it reused  {what}"
    counts = f"{turn.cached:,} of {turn.prompt:,} reused, {turn.computed:,} computed, TTFT {turn.ttft * 1000:.0f} ms"
    return f"turn {turn.number:<4} {_bar(turn.cached, turn.prompt)}  {counts}  {what}"


def _bar(part: int, whole: int) -> str:
    full = round(BAR * part / whole) if whole else 0
    return f"[{'#' * full}{'.' * (BAR - full)}]"


def _trouble(request: Mapping[str, Any]) -> list[str]:
    """What the gateway found wrong with a request; nothing, where its prefix held and was there."""
    name, lines = request.get("id"), []
    if broken := request.get("break"):
        lost = broken.get("lost_tokens_estimated")
        lines.append(
            f"BREAK     {broken.get('class')} at {broken.get('path')}: about {lost} tokens lost (sapwood why {name})"
        )
    if gap := request.get("gap"):
        lines.append(f"GAP       {gap.get('cause')}: {gap.get('tokens')} tokens were gone (sapwood why {name})")
    return lines
