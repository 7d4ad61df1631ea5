"""A command's output in bounded memory: its start and its end, whatever its length."""

from __future__ import annotations

import re

_ESCAPES = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")


class HeadTail:
    """Keeps the first and the last `limit // 2` bytes of what it is fed."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def feed(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > self._half:
            del self._tail[: -self._half]

    @property
    def omitted(self) -> int:
        return self._seen - len(self._head) - len(self._tail)

    @property
    def head_lines(self) -> int:
        """How many whole lines stand before the gap."""
        return self._head.count(b"\n")

    def text(self) -> str:
        """What was kept, as text without terminal escapes, with a line where the middle was left out."""
        if not self.omitted:
            return decode(bytes(self._head + self._tail))
        head, tail = bytes(self._head), bytes(self._tail)
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail[tail.find(b"\n") + 1 :] or tail
        left_out = self._seen - len(head) - len(tail)
        head_text = decode(head)
        newline = "" if head_text.endswith("\n") else "\n"
        return f"{head_text}{newline}[... {left_out} bytes left out ...]\n{decode(tail)}"


def decode(raw: bytes) -> str:
    """What a command wrote, as text: no terminal escapes, no NULs."""
    return _ESCAPES.sub(b"", raw).decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "\ufffd")
