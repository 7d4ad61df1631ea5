"""What reaches a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from agents.report import Report
from agents.state import Status
from agents.view import Text


def test_nothing_that_a_model_or_a_file_says_commands_the_terminal():
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    bad = "\x1b[2J \x9b31m \x07 \x08 \r \u202e \udcff"
    view = Text(Console(file=out, width=80))
    view.note(bad)
    view.verdict("s.b1", bad)
    view.finish(Report(Status.NOT_SOLVED, bad, diff=f"+{bad}", tests=bad))
    out.flush()
    text = out.buffer.getvalue().decode()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert text.count("\\x1b[2J") == 5
