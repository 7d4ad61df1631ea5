"""What a model or a person writes, parted into prose and fenced code. Nothing else of Markdown is read."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^(`{3,}|~{3,})([^\n`]*)\n(.*?)(?:^\1[`~]*[ \t]*$\n?|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Piece:
    text: str
    code: bool = False
    language: str = ""


def pieces(text: str) -> list[Piece]:
    found, at = [], 0
    for fence in _FENCE.finditer(text):
        found.append(Piece(text[at : fence.start()].strip("\n")))
        found.append(Piece(fence[3].rstrip("\n"), code=True, language=fence[2].strip()))
        at = fence.end()
    found.append(Piece(text[at:].strip("\n")))
    return [piece for piece in found if piece.code or piece.text.strip()]
