"""Server-sent events out of a stream that was cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MAX_EVENT = 16 * 2**20


class EventCutter:
    """Fed with bytes, it gives the data of each event that they complete. Lines may end in LF, CRLF or CR."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[bytes]:
        """ValueError for an event that is too long."""
        rest = self._rest + data
        lines = rest.replace(b"\r\n", b"\n").split(b"\n") if b"\r" in rest else rest.split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MAX_EVENT:
            raise ValueError("an event of the stream is too long")
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].lstrip())
            elif not line and self._data:
                yield self._whole()

    def end(self) -> Iterator[bytes]:
        """An event that the end of the stream completes."""
        yield from self.feed(b"\n\n")

    def _whole(self) -> bytes:
        data, self._data = b"\n".join(self._data), []
        return data


def as_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object that an event holds; None for anything else, as `[DONE]` is."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
