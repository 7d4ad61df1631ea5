"""Tokens to text while they are generated, byte-exactly."""

from __future__ import annotations

import codecs

from engine.prompt.tokenizer import Tokenizer


class Detokenizer:
    """Turns one token after another into text.

    A character whose bytes come in several tokens is held back until it is whole: at most three bytes wait. Text
    that was returned is never taken back, and the work for a token doesn't depend on what came before. Invalid bytes
    become U+FFFD. Special tokens are left out unless `specials` is set.
    """

    def __init__(self, tokenizer: Tokenizer, *, specials: bool = False) -> None:
        self._tokenizer = tokenizer
        self._hidden = frozenset[int]() if specials else tokenizer.special_ids
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that became certain with this token."""
        if token_id in self._hidden:
            return ""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    @property
    def pending(self) -> bool:
        """Whether bytes of a character are held back."""
        return bool(self._decoder.getstate()[0])

    def flush(self) -> str:
        """What was held back, at the end: U+FFFD for a character that never became whole."""
        return self._decoder.decode(b"", final=True)
