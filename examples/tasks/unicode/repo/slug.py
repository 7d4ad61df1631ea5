"""Titles as parts of URLs."""

import re
import unicodedata


def slug(title):
    """Lower case ASCII letters and digits, everything else a single dash; accents are dropped, letters kept."""
    composed = unicodedata.normalize("NFC", title)
    text = composed.encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
