"""Signatures of thinking blocks.

Anthropic signs thinking to know it again. Here a block is taken back by its text, whoever signed it; what the signature
adds is the thinking of a block that the client asked to have without its text (`thinking.display: "omitted"`). The
client returns the block as it came, so the next prompt has the very text that was generated.
"""

from __future__ import annotations

import base64
import binascii

PLAIN = "sapwood.1"
"""Signs a block whose text the client has."""

_CARRIES = "sapwood.1."


def carrying(thinking: str) -> str:
    """A signature that holds the text itself."""
    return _CARRIES + base64.urlsafe_b64encode(thinking.encode("utf-8", "surrogatepass")).decode("ascii")


def carried(signature: str) -> str | None:
    """The text in a signature of ours; None for all others and for damaged ones."""
    if not signature.startswith(_CARRIES):
        return None
    try:
        return base64.b64decode(signature[len(_CARRIES) :], altchars=b"-_", validate=True).decode(
            "utf-8", "surrogatepass"
        )
    except (binascii.Error, ValueError):
        return None
