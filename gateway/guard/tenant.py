"""Tenants: whoever shares a credential shares prefixes, and nobody else does.

The credential itself goes no further than this module. Scopes made from it with the gateway's secret name
keys in Redis and salt the engine's cache, so neither shows who uses it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

ANONYMOUS = "anonymous"
SCOPE_CHARS = 24


@dataclass(frozen=True, slots=True)
class Tenant:
    """`scope` names the tenant everywhere outside this module."""

    scope: str
    secret: bytes

    def hide(self, name: str) -> str:
        """A name of the tenant's own (a session key) as an id that only this tenant's requests produce."""
        return _mac(self.secret, f"{self.scope}\0{name}")


def tenant_of(headers: Mapping[str, str], secret: bytes) -> Tenant:
    credential = headers.get("authorization") or headers.get("x-api-key") or ANONYMOUS
    return Tenant(_mac(secret, credential), secret)


def tenant_named(name: str, secret: bytes) -> Tenant:
    """A tenant that the operator has named; nobody's credential makes the same one."""
    return Tenant(_mac(secret, f"tenant\0{name}"), secret)


def _mac(secret: bytes, text: str) -> str:
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:SCOPE_CHARS]
