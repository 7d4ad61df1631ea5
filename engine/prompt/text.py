"""The one repair that text from outside needs before it can be tokenised or hashed."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """`text` with every lone surrogate (JSON's `"\\ud800"` makes one) replaced by U+FFFD.

    A lone surrogate has no UTF-8 form, so a tokenizer or a hash would refuse the whole request for it.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
