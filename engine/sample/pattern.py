"""What of a regular expression a grammar can't hold text to, found by reading it once.

xgrammar matches whole texts, passes over lookaheads and anchors in the middle, and writes a pattern's characters into
JSON as they are: a quote would end the string that it belongs to. Its other refusals don't say where in a schema a
pattern stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(
    r"\[\^?(?:\\.|[^\]\\])+\]"
    r"|\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|c[A-Za-z]|.)"
    r"|\(\?(?:<?[=!]|:|[a-zA-Z-]+[:)])?"
    r"|.",
    re.DOTALL,
)
_CONTROL = dict(zip("nrtvf", "\n\r\t\v\f", strict=True))
_CLASSES = frozenset("wWdDsSbBpPkK")
_ESCAPED = '"\\\n\t'
_ANCHORS = frozenset("^$")
_DEEPEST = 64


def fault_of(pattern: str, *, in_json: bool = True) -> str | None:
    """Why `pattern` can't be enforced, or None. `in_json`: as the text of a JSON string."""
    pieces = _PIECE.findall(pattern)
    fault = next((fault for piece in pieces if (fault := _fault(piece, in_json))), None) or _misnested(pieces)
    if fault:
        return fault
    rest = _ANCHORS.intersection(_PIECE.findall(searched(pattern, "")))
    return f"`{min(rest)}` in the middle" if rest else None


def searched(pattern: str, around: str) -> str:
    """A pattern that matches the whole of the texts in which `pattern`, which has no fault, is found.

    `around` stands for what is in front of it and behind, where no anchor is.
    """
    return _anchored(_PIECE.findall(pattern), around)


def needs_escapes(pattern: str) -> bool:
    """Whether `pattern`, which has no fault, is found in texts that hold what JSON escapes. A grammar has none."""
    return any(map(_takes_escaped, _PIECE.findall(searched(pattern, "."))))


def disjoint(patterns: list[str]) -> bool:
    """Whether texts that match one of `patterns` surely match no other, as they begin differently."""
    prefixes = [_prefix(pattern) for pattern in patterns]
    return not any(
        one.startswith(other) for i, one in enumerate(prefixes) for j, other in enumerate(prefixes) if i != j
    )


def _anchored(pieces: list[str], around: str) -> str:
    return "|".join(_anchored_branch(branch, around) for branch in _branches(pieces))


def _anchored_branch(branch: list[str], around: str) -> str:
    if _is_group(branch) and not _ANCHORS.isdisjoint(branch):
        return f"{branch[0]}{_anchored(branch[1:-1], around)})"
    begins, ends = branch[:1] == ["^"], branch[-1:] == ["$"]
    inner = "".join(branch[begins : len(branch) - ends])
    return f"{'' if begins else around}{inner}{'' if ends else around}"


def _branches(pieces: list[str]) -> list[list[str]]:
    """The alternatives that aren't within a group."""
    branches: list[list[str]] = [[]]
    for piece, depth in zip(pieces, _depths(pieces), strict=True):
        if piece == "|" and depth == 0:
            branches.append([])
        else:
            branches[-1].append(piece)
    return branches


def _is_group(branch: list[str]) -> bool:
    """Whether one group is all of `branch`."""
    ends = (at for at, depth in enumerate(_depths(branch)) if depth == 1 and branch[at] == ")")
    return bool(branch) and branch[0][0] == "(" and next(ends, None) == len(branch) - 1


def _depths(pieces: list[str]) -> Iterator[int]:
    """In how many groups each piece stands; what begins and ends a group stands in it."""
    depth = 0
    for piece in pieces:
        depth += piece[0] == "("
        yield depth
        depth -= piece == ")"


def _misnested(pieces: list[str]) -> str | None:
    depth = 0
    for piece in pieces:
        depth += (piece[0] == "(") - (piece == ")")
        if depth > _DEEPEST:
            return f"groups nested deeper than {_DEEPEST}"
        if depth < 0:
            break
    return "unbalanced parenthesis" if depth else None


def _fault(piece: str, in_json: bool) -> str | None:
    if piece in ("(?=", "(?!", "(?<=", "(?<!"):
        return f"`{piece}` (looking around)"
    if piece[:2] == "(?" and piece not in ("(?", "(?:"):
        return f"`{piece}` (a flag)"
    if piece == "[":
        return "an open or empty `[`"
    if re.fullmatch(r"\\[1-9kK]", piece):
        return f"`{piece}` (a back-reference)"
    if piece in (r"\b", r"\B"):
        return f"`{piece}` (a word's border)"
    if piece in (r"\p", r"\P"):
        return f"`{piece}` (a Unicode class)"
    return _unwritable(piece) if in_json else None


def _unwritable(piece: str) -> str | None:
    """JSON writes these with an escape, which the pattern doesn't have."""
    char = _char(piece)
    return f"{char!r}, which JSON escapes" if char is not None and (char in '"\\' or char < " ") else None


def _char(piece: str) -> str | None:
    """The one character that a piece stands for, if it stands for one."""
    if alone := re.fullmatch(r"\[(\\.\w*|[^\\^])\]", piece, re.DOTALL):
        return _char(alone[1])
    if piece[0] != "\\" or len(piece) == 1:
        return piece if len(piece) == 1 else None
    kind, rest = piece[1], piece[2:]
    if rest:
        return chr(ord(rest.upper()) - 64) if kind == "c" else chr(int(rest, 16))
    return None if kind in _CLASSES or kind.isdigit() else _CONTROL.get(kind, kind)


def _takes_escaped(piece: str) -> bool:
    """Whether one character that a piece matches may be one that JSON escapes."""
    if piece[0] == "[":
        inner = re.sub(r"\\.|[\[&~|]", lambda part: part[0] if len(part[0]) == 2 else f"\\{part[0]}", piece[1:-1])
        piece = f"[{inner}]"
    try:
        return any(re.fullmatch(piece, char) for char in _ESCAPED)
    except re.error:  # not of one character, like a parenthesis, or none that this engine knows
        return piece[0] == "["


def _prefix(pattern: str) -> str:
    """The plain characters that each match begins with."""
    found = re.match(r"\^([\w/-]*)([?*{]?)", pattern) if "|" not in pattern else None
    return (found[1][:-1] if found[2] else found[1]) if found else ""
