"""From a vocabulary's printable token strings to the bytes that the tokens stand for.

Two schemes are in use. Byte-level vocabularies (GPT-2 and its heirs) write each byte as one printable character.
SentencePiece vocabularies write a space as U+2581 and a byte without a token of its own as `<0xNN>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


@cache
def byte_alphabet() -> dict[str, int]:
    """Character to byte, as GPT-2 defined it: visible Latin-1 stands for itself, the rest follows from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(visible)]
    alphabet = {chr(byte): byte for byte in visible}
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(hidden)})
    return alphabet


def byte_level(token: str) -> bytes:
    """The bytes of a byte-level token. One with a character outside the alphabet stands for its own UTF-8."""
    alphabet = byte_alphabet()
    try:
        return bytes([alphabet[character] for character in token])
    except KeyError:
        return token.encode("utf-8")


def sentencepiece(token: str) -> bytes:
    """The bytes of a SentencePiece token."""
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(match[1], 16)])
    return token.replace("\u2581", " ").encode("utf-8")


def scheme_of(decoder_state: str) -> Callable[[str], bytes]:
    """The scheme that a `tokenizers` decoder (its JSON state) implies."""
    return byte_level if '"ByteLevel"' in decoder_state else sentencepiece
