"""The slash commands: what there is, what a line of input means, and how it may go on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agents.tui.ink import Ink, Line, Span


class Name(StrEnum):
    HELP = "/help"
    DIFF = "/diff"
    UNDO = "/undo"
    WHY = "/why"
    FORK = "/fork"
    MODEL = "/model"
    TOOLS = "/tools"
    COMPACT = "/compact"
    COST = "/cost"
    QUIT = "/quit"


@dataclass(frozen=True)
class About:
    summary: str
    takes: str = ""


ABOUT = {
    Name.HELP: About("commands and keys"),
    Name.DIFF: About("what this session changed so far"),
    Name.UNDO: About("take back the last edit"),
    Name.WHY: About("what each turn reused, and why not more"),
    Name.FORK: About("go on in a fork, from an event or from here", "[event]"),
    Name.MODEL: About("the models there are; with a name, use that one", "[name]"),
    Name.TOOLS: About("the tools of this session"),
    Name.COMPACT: About("go on from a summary, to make room"),
    Name.COST: About("tokens of this session"),
    Name.QUIT: About("leave; the session can be resumed"),
}
KEYS = (
    ("Enter", "send; while it works: sent when it rests; on an empty line: go on where it stopped"),
    ("Ctrl-J", "a new line (also Shift-Enter or Alt-Enter, where the terminal tells them apart)"),
    ("Up, Down", "what was typed before"),
    ("Tab", "complete a command; else move to the transcript and back"),
    ("Up, Down, Enter", "in the transcript: choose a fold, open or close it (a click does too)"),
    ("Ctrl-O", "open or close all folds"),
    ("PgUp, PgDn", "scroll"),
    ("Ctrl-C", "stop the turn; copies, where text is selected; twice: leave"),
    ("Ctrl-D", "leave, on an empty line"),
)


@dataclass(frozen=True)
class Wrong:
    """A command that there is not, or not like this."""

    text: str


@dataclass(frozen=True)
class Command:
    name: Name
    argument: str = ""


def parse(text: str) -> Command | Wrong | None:
    """The command that the input is, or None for words to the model."""
    if not text.startswith("/"):
        return None
    word, _, argument = text.partition(" ")
    argument = argument.strip()
    if word not in tuple(Name):
        return Wrong(f"There is no {word.splitlines()[0]}. There are: {', '.join(Name)}.")
    name = Name(word)
    if argument and not ABOUT[name].takes:
        return Wrong(f"{name} takes nothing after it.")
    if name is Name.FORK and argument and not (argument.isascii() and argument.isdigit() and int(argument)):
        return Wrong("/fork takes the number of an event of the session file, or nothing.")
    return Command(name, argument)


def matching(text: str) -> list[Name]:
    """The commands that begin like `text`."""
    return [name for name in Name if name.startswith(text)] if text.startswith("/") else []


def completed(text: str, models: Sequence[str]) -> str:
    """`text` as far as there is only one way to go on."""
    head = f"{Name.MODEL} "
    if text.startswith(head):
        fits = [model for model in models if model.startswith(text[len(head) :])]
        return head + _shared(fits) if fits else text
    names = matching(text)
    if len(names) == 1:
        return f"{names[0]} " if ABOUT[names[0]].takes else str(names[0])
    return _shared(names) or text


def help_lines() -> list[Line]:
    width = max(len(name) + len(about.takes) + 1 for name, about in ABOUT.items())
    commands = [
        (Span(f"{name} {about.takes}".ljust(width + 2), Ink.NAME), Span(about.summary)) for name, about in ABOUT.items()
    ]
    keys = [(Span(key.ljust(width + 2), Ink.STRONG), Span(what)) for key, what in KEYS]
    return [*commands, (Span(""),), *keys]


def hint_lines(text: str) -> list[Line]:
    """What may be meant by the beginning of a command."""
    return [
        (Span(f"{name} {ABOUT[name].takes}".ljust(17), Ink.NAME), Span(ABOUT[name].summary, Ink.DIM))
        for name in matching(text)
    ]


def _shared(names: Sequence[str]) -> str:
    """What all of them begin with."""
    pairs = zip(min(names, default=""), max(names, default=""), strict=False)
    return "".join(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
