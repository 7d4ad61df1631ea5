"""Text on its way to and from a model: reading files as text, and cutting what is too long, once."""

from __future__ import annotations

import difflib

from tools.errors import ToolFault
from tools.sandbox import Sandbox

_BINARY_PROBE = 8192
MAX_LINE = 2000
"""What is shown of one line."""


def read_text(sandbox: Sandbox, path: str) -> str:
    """A file's text as it is, line ends included. ToolFault if it is missing, too large, binary or not UTF-8."""
    data = sandbox.jail.read(path, sandbox.limits.read_bytes)
    if b"\0" in data[:_BINARY_PROBE]:
        raise ToolFault(f"{path!r} is a binary file of {len(data)} bytes; tools read text only")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise ToolFault(f"{path!r} is not UTF-8 text: byte 0x{byte:02x} in line {line}") from None


def lines_of(text: str) -> list[str]:
    """The lines as compilers and editors count them, at line feeds alone and without their ends."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def encode_text(sandbox: Sandbox, path: str, text: str) -> bytes:
    """The bytes to write for `text`. ToolFault if they are too many or can't be encoded."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolFault(f"the new text for {path!r} has characters that UTF-8 can't hold") from None
    if len(data) > sandbox.limits.read_bytes:
        raise ToolFault(f"the new text for {path!r} is longer than {sandbox.limits.read_bytes} bytes")
    return data


def cut(text: str, limit: int, hint: str) -> str:
    """`text` in at most about `limit` characters: whole lines from its head and tail, and how to read on."""
    if len(text) <= limit:
        return text
    half = limit // 2
    head = text[:half]
    head = head[: head.rfind("\n") + 1] or head + "\n"
    tail = text[-half:]
    tail = tail[tail.find("\n") + 1 :] or tail
    lines = text.count("\n") - head.count("\n") - tail.count("\n")
    return f"{head}[... {max(lines, 1)} lines left out; {hint} ...]\n{tail}"


def cut_line(line: str) -> str:
    """One line in bounded length."""
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}[... {len(line) - MAX_LINE} characters left out]"


def numbered(lines: list[str], first: int) -> str:
    """`lines` with their numbers, as `read_file` shows them."""
    return "\n".join(f"{number:>4} | {cut_line(line)}" for number, line in enumerate(lines, first))


def short_diff(path: str, old: str, new: str, limit: int) -> str:
    """A unified diff with two lines of context."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", n=2, lineterm="")
    return cut("\n".join(lines), limit, f"read them with read_file, path {path}")
