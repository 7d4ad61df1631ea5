"""API keys: what is stored of them, and how one is made.

A key is 32 random bytes, so that its plain SHA-256 can't be guessed back; only that is stored, never the key.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

PREFIX = "sk-sapwood-"
SHOWN_CHARS = len(PREFIX) + 4


@dataclass(frozen=True, slots=True)
class Key:
    """`name` is the operator's; whoever has keys of one `tenant` shares prefixes and limits."""

    name: str
    tenant: str
    hashed: str
    """Hexadecimal SHA-256."""
    shown: str
    """The key's first characters, to tell keys apart."""
    created: int
    requests_per_minute: int = 0
    """0 is without limit, here and below."""
    tokens_per_minute: int = 0

    def encode(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def make_key(name: str, tenant: str, requests_per_minute: int = 0, tokens_per_minute: int = 0) -> tuple[str, Key]:
    """A new key, which is shown to its owner once, and what is stored of it."""
    secret = PREFIX + secrets.token_urlsafe(32)
    record = Key(
        name=name,
        tenant=tenant,
        hashed=hash_of(secret),
        shown=secret[:SHOWN_CHARS],
        created=int(time.time()),
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
    )
    return secret, record


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def decode_key(value: Any) -> Key | None:
    """None for what this version can't read."""
    try:
        told = json.loads(value) if isinstance(value, str | bytes) else value
    except ValueError:
        return None
    if not isinstance(told, Mapping):
        return None
    known = {field.name: told[field.name] for field in fields(Key) if field.name in told}
    texts = ("name", "tenant", "hashed", "shown")
    numbers = ("created", "requests_per_minute", "tokens_per_minute")
    if not all(isinstance(known.get(name), str) for name in texts):
        return None
    if not all(type(known.get(name, 0)) is int for name in numbers):
        return None
    return Key(**{"created": 0, **known})


def secret_in(headers: Mapping[str, str]) -> str | None:
    """The key that a request carries, by OpenAI's header or Anthropic's."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get("x-api-key") or headers.get("api-key") or None
