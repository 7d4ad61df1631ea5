"""What the slash commands do: each asks the session and has blocks to show for it."""

from __future__ import annotations

from collections.abc import Sequence

from agents.tui.answers import cost_lines, model_lines, model_of, tool_lines
from agents.tui.blocks import Block, Listing, Notice, Patch
from agents.tui.commands import Command, Name, help_lines
from agents.tui.ink import Ink, Line, line
from agents.tui.ports import Talk


def must_wait(command: Command) -> bool:
    """It changes the session, so it is done when that rests."""
    return command.name in (Name.UNDO, Name.FORK, Name.COMPACT) or (
        command.name is Name.MODEL and command.argument != ""
    )


async def obey(command: Command, talk: Talk) -> Sequence[Block]:
    """Raises what the session raises."""
    match command.name:
        case Name.HELP:
            return [Listing(help_lines())]
        case Name.DIFF:
            diff = await talk.diff()
            return [Patch(diff)] if diff.strip() else [Notice("Nothing is changed.")]
        case Name.UNDO:
            return [Notice(await talk.undo(), Ink.PLAIN)]
        case Name.WHY:
            return [Listing([_reason(text) for text in await talk.why()] or [line("No turn yet.", Ink.DIM)])]
        case Name.FORK:
            return [Notice(await _fork(talk, int(command.argument) if command.argument else None), Ink.PLAIN)]
        case Name.MODEL:
            return [await _model(talk, command.argument)]
        case Name.TOOLS:
            return [Listing(tool_lines(talk.state))]
        case Name.COMPACT:
            return [Notice(await talk.compact(), Ink.PLAIN)]
        case Name.COST:
            return [Listing(cost_lines(talk.state))]
        case Name.QUIT:
            return []


async def _fork(talk: Talk, event: int | None) -> str:
    origin = talk.state.id
    return f"This is {await talk.fork(event)} from here on; {origin} stays as it was."


async def _model(talk: Talk, name: str) -> Block:
    names = await talk.models()
    if not name:
        return Listing(model_lines(names, model_of(talk.state)))
    if name not in names:
        return Notice(f"There is no model {name}. There are: {', '.join(names)}.", Ink.WARN)
    talk.use_model(name)
    return Notice(f"{name} answers from here on; it has none of this conversation in its cache yet.", Ink.PLAIN)


def _reason(text: str) -> Line:
    troubled = text.startswith(("BREAK", "GAP"))
    return line(text, Ink.WARN if troubled else Ink.PLAIN)
