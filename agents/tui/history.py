"""What was typed before, for the arrow keys. The unfinished text is kept at the newest end."""

from __future__ import annotations


class History:
    def __init__(self) -> None:
        self._entries: list[str] = []
        self._at = 0
        self._draft = ""

    def add(self, text: str) -> None:
        if self._entries[-1:] != [text]:
            self._entries.append(text)
        self._at, self._draft = len(self._entries), ""

    def older(self, current: str) -> str | None:
        """The entry before the one that is shown; None where there is none."""
        if self._at == 0:
            return None
        if self._at == len(self._entries):
            self._draft = current
        self._at -= 1
        return self._entries[self._at]

    def newer(self) -> str | None:
        if self._at == len(self._entries):
            return None
        self._at += 1
        return self._draft if self._at == len(self._entries) else self._entries[self._at]
