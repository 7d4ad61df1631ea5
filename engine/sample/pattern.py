"""What of a regular expression a grammar can't hold text to, found by reading it once.

xgrammar passes over lookaheads and anchors in the middle, and writes a pattern's characters into JSON as they are: a
quote would end the string that it belongs to. Its other refusals don't say where in a schema a pattern stands.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|c[A-Za-z]|.)|\(\?(?:<?[=!]|[a-zA-Z-]+[:)])?|.", re.DOTALL)
_CONTROL = dict(zip("nrtvf", "\n\r\t\v\f", strict=True))
_CLASSES = frozenset("wWdDsSbBpPkK")


def fault_of(pattern: str, *, in_json: bool = True) -> str | None:
    """Why `pattern` can't be enforced, or None. `in_json`: as the text of a JSON string."""
    depth = 0
    members: list[str] | None = None  # of the class that is open
    pieces = _PIECE.findall(pattern)
    for at, piece in enumerate(pieces):
        if members is not None:
            if piece != "]" or members in ([], ["^"]):
                members.append(piece)
                continue
            fault = _unwritable(members[0]) if in_json and len(members) == 1 else None
            members = None
        elif piece == "[":
            members = []
            continue
        else:
            depth += (piece[0] == "(") - (piece == ")")
            fault = _fault(piece, in_json) or _misplaced(piece, pieces[:at], pieces[at + 1 :])
            fault = fault or ("unbalanced parenthesis" if depth < 0 else None)
        if fault:
            return fault
    return "unbalanced parenthesis" if depth else "an open `[`" if members is not None else None


def disjoint(patterns: list[str]) -> bool:
    """Whether texts that match one of `patterns` surely match no other, as they begin differently."""
    prefixes = [_prefix(pattern) for pattern in patterns]
    return not any(
        one.startswith(other) for i, one in enumerate(prefixes) for j, other in enumerate(prefixes) if i != j
    )


def _fault(piece: str, in_json: bool) -> str | None:
    if piece.startswith(("(?=", "(?!", "(?<=", "(?<!")):
        return f"`{piece}` (looking around)"
    if piece.startswith("(?") and piece not in ("(?", "(?:", "(?P"):
        return f"`{piece}` (a flag)"
    if re.fullmatch(r"\\[1-9kK]", piece):
        return f"`{piece}` (a back-reference)"
    if piece in (r"\b", r"\B"):
        return f"`{piece}` (a word's border)"
    if piece in (r"\p", r"\P"):
        return f"`{piece}` (a Unicode class)"
    return _unwritable(piece) if in_json else None


def _misplaced(piece: str, before: list[str], after: list[str]) -> str | None:
    if piece == "^" and before and before[-1] not in ("(", "|", ":") and not before[-1].startswith("(?"):
        return "`^` in the middle"
    if piece == "$" and after and after[0] not in (")", "|"):
        return "`$` in the middle"
    return None


def _unwritable(piece: str) -> str | None:
    """JSON writes these with an escape, which the pattern doesn't have."""
    char = _char(piece)
    return f"{char!r}, which JSON escapes" if char is not None and (char in '"\\' or char < " ") else None


def _char(piece: str) -> str | None:
    """The one character that a piece stands for, if it stands for one."""
    if piece[0] != "\\" or len(piece) == 1:
        return piece if len(piece) == 1 else None
    kind, rest = piece[1], piece[2:]
    if rest:
        return chr(ord(rest.upper()) - 64) if kind == "c" else chr(int(rest, 16))
    return None if kind in _CLASSES or kind.isdigit() else _CONTROL.get(kind, kind)


def _prefix(pattern: str) -> str:
    """The plain characters that each match begins with."""
    found = re.match(r"\^([\w/-]*)([?*{]?)", pattern) if "|" not in pattern else None
    return (found[1][:-1] if found[2] else found[1]) if found else ""
