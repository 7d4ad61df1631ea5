"""A session as one HTML page that needs nothing else: no script, no request, and no word of a tool that is markup."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agents.export.diffs import lines_of
from agents.export.prose import pieces
from agents.export.summary import Summary
from agents.export.units import count, moment, percent, seconds
from agents.state import Turn
from agents.view import shown


def render(told: Summary) -> str:
    style = files("agents.export").joinpath("templates/style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    page = _environment().get_template("page.html.j2")
    return page.render(told=told, style=Markup(style), policy=policy, widest=_widest(told))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("agents.export"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "seconds": seconds, "moment": moment, "percent": percent}
    environment.globals |= {"diff": lines_of, "pieces": pieces, "bar": bar}
    return environment


def _visible(value: Any) -> Any:
    """Control characters, and those that change the direction of text, are shown instead of obeyed."""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _widest(told: Summary) -> int:
    every = [*told.turns, *(turn for branch in told.branches for turn in branch.turns)]
    return max((turn.prompt or 0 for turn in every), default=0) or 1


def bar(turn: Turn, widest: int) -> tuple[float, float] | None:
    """Widths of the cached and the computed part, in percent of the widest prompt."""
    if turn.prompt is None or turn.cached is None:
        return None
    cached = min(turn.cached, turn.prompt)
    return round(100 * cached / widest, 2), round(100 * (turn.prompt - cached) / widest, 2)
