"""Titles as parts of URLs."""

import re
import unicodedata


def slug(title):
    """Lower case ASCII letters and digits, everything else a single dash; accents are dropped, letters kept."""
    decomposed = unicodedata.normalize("NFKD", title)
    text = decomposed.encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
