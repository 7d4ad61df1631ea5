"""What a line on the screen is made of: pieces of clean text, each with the role that decides its look."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from agents.view import shown


class Ink(StrEnum):
    """The values are styles in the terminal's own palette, so that light and dark terminals both read well."""

    PLAIN = ""
    DIM = "dim"
    STRONG = "bold"
    PERSON = "bold cyan"
    NAME = "bold blue"
    CODE = "magenta"
    FILE = "bold yellow"
    HUNK = "cyan"
    ADDED = "green"
    REMOVED = "red"
    GOOD = "bold green"
    WARN = "yellow"
    BAD = "bold red"


class Span(NamedTuple):
    text: str
    ink: Ink = Ink.PLAIN


Line = tuple[Span, ...]


def line(text: str, ink: Ink = Ink.PLAIN) -> Line:
    return (Span(text, ink),)


def plain(spans: Line) -> str:
    return "".join(span.text for span in spans)


def clean(text: str) -> str:
    """Text of a model, a tool or a server, fit for the screen: nothing in it can steer the terminal."""
    return shown(text.replace("\r\n", "\n").replace("\t", "    "))


def clean_line(text: str) -> str:
    return clean(" ".join(text.split()))
