"""Outputs that were too long to show, as files in the temporary home where commands can read them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tools.errors import ToolFault
from tools.sandbox.jail import Jail

_FOLDER = "output"
_NEWEST = 8


class Outputs:
    """Keeps the newest few under a number of their own."""

    def __init__(self, home: Path) -> None:
        self._home = Jail(home)
        self._count = 0

    def keep(self, text: str) -> str:
        """The file's name, as a command writes it; empty where it can't be written."""
        self._count += 1
        name = f"{_FOLDER}/{self._count}.txt"
        with contextlib.suppress(ToolFault):
            self._home.remove(f"{_FOLDER}/{self._count - _NEWEST}.txt")
        try:
            self._home.write(name, text.encode())
        except ToolFault:
            return ""
        return f"~/{name}"
