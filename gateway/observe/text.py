"""Texts of clients and upstreams as they may stand in records and logs: short, and always UTF-8."""

from __future__ import annotations

MAX_CHARS = 200


def printable(text: str, limit: int = MAX_CHARS) -> str:
    """Cut, and with lone surrogates replaced."""
    return text[:limit].encode("utf-8", "replace").decode()
