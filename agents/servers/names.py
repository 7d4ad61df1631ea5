"""What foreign tools are called here: `server__tool`, in the letters and the length that every model API takes."""

from __future__ import annotations

import hashlib
import re

LONGEST = 64
_DIGEST = 8


class Names:
    """One name for each tool of each server, the same for as long as this lives. Who asks first gets the plain name;
    a digest of both tells apart what would be alike, and marks what had to be cut.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._owners: dict[str, tuple[str, str]] = {}

    def of(self, server: str, tool: str) -> str:
        pair = server, tool
        if pair not in self._names:
            plain = prefix(server) + _plain(tool)
            name = plain if len(plain) <= LONGEST and plain not in self._owners else _marked(plain, pair)
            self._names[pair], self._owners[name] = name, pair
        return self._names[pair]

    def owner(self, name: str) -> tuple[str, str] | None:
        """The server and the tool that `name` was given to."""
        return self._owners.get(name)


def prefix(server: str) -> str:
    return f"{_plain(server)}__"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)


def _marked(plain: str, pair: tuple[str, str]) -> str:
    digest = hashlib.sha256("\0".join(pair).encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: LONGEST - _DIGEST - 1]}_{digest}"
