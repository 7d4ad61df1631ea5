"""Stop strings in a stream of text, however it is cut."""

from __future__ import annotations

from collections.abc import Iterable


class StopMatcher:
    """Passes text on until one of `stops` is complete; the stop that ends first wins, and isn't passed on.

    Of stops that end at the same place the longest counts. Only text that may still become a stop is held back.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = sorted({stop for stop in stops if stop}, key=len, reverse=True)
        self._longest = len(self._stops[0]) if self._stops else 0
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is certain now, and whether a stop was met; after it nothing more is passed on."""
        if self.matched is not None:
            return "", True
        text = self._held + text
        found = [(start + len(stop), stop) for stop in self._stops if (start := text.find(stop)) >= 0]
        if found:
            end, self.matched = min(found, key=lambda item: item[0])
            self._held = ""
            return text[: end - len(self.matched)], True
        keep = self._undecided(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def flush(self) -> str:
        """What was held back, when the text ends without a stop."""
        held, self._held = self._held, ""
        return held

    def _undecided(self, text: str) -> int:
        """The length of the longest end of `text` that is a proper beginning of a stop."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            if any(len(stop) > length and stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
