"""The content blocks of one answer, in order, and how far each has been told.

A chat stream may interleave text, reasoning and the arguments of several calls; Anthropic's tells one block after the
other. Only the first block that is not closed is told as it grows; those behind it are held back. It is closed when
another has begun behind it and it is complete: text and reasoning always are, a call when its arguments are a JSON
object. What is left is told at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Kind(Enum):
    THINKING = "thinking"
    TEXT = "text"
    TOOL = "tool_use"


class State(Enum):
    """waiting → open → closed."""

    WAITING = 0
    OPEN = 1
    CLOSED = 2


@dataclass(slots=True, eq=False)
class Block:
    """`pieces` are what it consists of, joined with nothing between; for a call the JSON of its arguments."""

    kind: Kind
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    told: int = 0
    """How many pieces the client has."""
    state: State = State.WAITING
    index: int = -1
    """Its number in the answer, once it is open."""
    _checked: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def is_complete(self) -> bool:
        if self.kind is not Kind.TOOL:
            return True
        if self._checked == len(self.pieces) or not self.pieces[-1].rstrip().endswith("}"):
            return False
        self._checked = len(self.pieces)
        return self.arguments() is not None

    @property
    def is_broken(self) -> bool:
        """Whether this is a call whose arguments, now that no more will come, are no JSON object."""
        return self.kind is Kind.TOOL and bool(self.text.strip()) and self.arguments() is None

    def arguments(self) -> dict[str, Any] | None:
        try:
            value = json.loads(self.text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def untold(self, keep: bool) -> str:
        """The pieces that the client hasn't got yet, as one; from now on it has. Without `keep` they are forgotten."""
        text = "".join(self.pieces[self.told :])
        if not keep:
            self.pieces.clear()
        self.told = len(self.pieces)
        return text


class Step(Enum):
    """What can be told of a block."""

    START = 0
    MORE = 1
    STOP = 2


class BlockSequence:
    """Grows by `say` and `call`; `steps` yields what has become ready to be told."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._calls: dict[int | str, Block] = {}
        self._head = 0
        self._started = 0

    def say(self, kind: Kind, text: str) -> None:
        """More text or reasoning."""
        if not self.blocks or self.blocks[-1].kind is not kind:
            self.blocks.append(Block(kind))
        self.blocks[-1].pieces.append(text)

    def call(self, index: int | None, call_id: str, name: str, arguments: str) -> None:
        """A piece of a call. Servers leave out the index, the id, or give two calls the same index."""
        block = self._known(index, call_id, name)
        if block is None:
            block = Block(Kind.TOOL, call_id)
            self.blocks.append(block)
            self._calls |= {key: block for key in (index, call_id) if key is not None and key != ""}
        block.name = block.name or name
        block.id = block.id or call_id
        if arguments:
            block.pieces.append(arguments)

    def said(self) -> list[Block]:
        """The blocks as they are told in the end: a call without a name can't be run, so it is none."""
        return [block for block in self.blocks if block.kind is not Kind.TOOL or block.name]

    def steps(self, last: bool = False) -> Iterator[tuple[Step, Block]]:
        while self._head < len(self.blocks):
            block = self.blocks[self._head]
            yield from self._grown(block)
            if not (last or (self._head + 1 < len(self.blocks) and block.state is State.OPEN and block.is_complete)):
                return
            if block.state is State.OPEN:
                yield Step.STOP, block
            block.state = State.CLOSED
            self._head += 1

    def _grown(self, block: Block) -> Iterator[tuple[Step, Block]]:
        if block.state is State.WAITING and (block.kind is not Kind.TOOL or block.name):
            block.state, block.index = State.OPEN, self._started
            self._started += 1
            yield Step.START, block
        if block.state is State.OPEN and block.told < len(block.pieces):
            yield Step.MORE, block

    def _known(self, index: int | None, call_id: str, name: str) -> Block | None:
        """The call that a piece belongs to; None for a new one."""
        if index is None:
            latest = next((block for block in reversed(self.blocks) if block.kind is Kind.TOOL), None)
            return self._calls.get(call_id) if call_id else None if name else latest
        block = self._calls.get(index)
        is_other = block is not None and name and call_id and block.id and block.id != call_id
        return None if is_other else block


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
