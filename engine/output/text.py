"""From generated tokens to the text that a client may see: detokenizer, then stop strings."""

from __future__ import annotations

from collections.abc import Iterable

from engine.output.stop import StopMatcher
from engine.prompt.detokenizer import Detokenizer
from engine.prompt.tokenizer import Tokenizer


class TextOutput:
    """One request's text. `text` is everything emitted so far, `stopped` whether a stop string has matched.

    Special tokens are no text, except those named in `shown`: the marks that a parser needs to see.
    """

    def __init__(self, tokenizer: Tokenizer, stops: list[str], shown: Iterable[str] = ()) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        specials = tokenizer.specials
        self._shown = {specials[name]: name for name in shown if name in specials}
        self._stops = StopMatcher(stops)
        self._pieces: list[str] = []
        self.stopped = False

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def push(self, token: int) -> str:
        """The text that became certain with this token; empty while a character or a stop is incomplete."""
        if mark := self._shown.get(token):
            return self._emit(self._detokenizer.flush() + mark)
        return self._emit(self._detokenizer.push(token))

    def finish(self) -> str:
        """What was held back, when no more tokens come."""
        if self.stopped:
            return ""
        tail = self._emit(self._detokenizer.flush())
        if not self.stopped:
            held = self._stops.flush()
            self._pieces.append(held)
            tail += held
        return tail

    def _emit(self, piece: str) -> str:
        emitted, self.stopped = self._stops.push(piece)
        self._pieces.append(emitted)
        return emitted
