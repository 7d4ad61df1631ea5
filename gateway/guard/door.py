"""Who may come in, and how much of it: keys first, then limits by the minute.

Without a key store everybody may, and whoever sends the same credential is one tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.errors import GatewayError
from gateway.guard.key_store import KeyRing, Unavailable
from gateway.guard.keys import Key, hash_of, secret_in
from gateway.guard.limits import Limiter, Verdict
from gateway.guard.tenant import Tenant, tenant_named, tenant_of


@dataclass(frozen=True, slots=True)
class Caller:
    """`key` is None where no keys are asked for."""

    tenant: Tenant
    key: Key | None = None


class Door:
    def __init__(self, ring: KeyRing | None, limiter: Limiter, secret: bytes, clock_ms: Callable[[], int]) -> None:
        self._ring = ring
        self._limiter = limiter
        self._secret = secret
        self._clock_ms = clock_ms
        self._tasks: set[asyncio.Task[Verdict]] = set()

    async def admit(self, headers: Mapping[str, str]) -> Caller:
        """GatewayError 401 for a key that is missing or unknown, 503 where keys can't be read at all."""
        if self._ring is None:
            return Caller(tenant_of(headers, self._secret))
        secret = secret_in(headers)
        if secret is None:
            raise _unauthorized("No API key was sent: put it into the Authorization header, as `Bearer KEY`.")
        try:
            key = await self._ring.find(hash_of(secret))
        except Unavailable as error:
            message = f"The gateway can't read its API keys ({error}). Try again shortly."
            raise GatewayError(message, code="keys_unavailable", status=503, retry_after_s=1) from None
        if key is None:
            raise _unauthorized("The API key is not known here, or it was revoked.")
        return Caller(tenant_named(key.tenant, self._secret), key)

    async def take(self, caller: Caller, tokens: int) -> None:
        """Count a request of about so many tokens. GatewayError 429 for one that is too much."""
        key = caller.key
        if key is None:
            return
        for kind, limit, amount in (
            ("requests", key.requests_per_minute, 1),
            ("tokens", key.tokens_per_minute, tokens),
        ):
            if not limit:
                continue
            verdict = await self._limiter.take(_counter(caller, kind), self._clock_ms(), limit, amount)
            if not verdict.allowed:
                raise _too_much(kind, limit, verdict)

    def settle(self, caller: Caller, estimated: int, used: int) -> None:
        """The engine has counted: the difference goes into the window, whatever the limit."""
        if caller.key is None or not caller.key.tokens_per_minute or used == estimated:
            return
        counter, limit = _counter(caller, "tokens"), caller.key.tokens_per_minute
        put_right = self._limiter.take(counter, self._clock_ms(), limit, used - estimated, force=True)
        task = asyncio.create_task(put_right)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _counter(caller: Caller, kind: str) -> str:
    """Limits hold for each key. The hash tag keeps a tenant's counters in one slot of a Redis Cluster."""
    assert caller.key is not None
    return f"sapwood:{{{caller.tenant.scope}}}:l:{kind}:{caller.key.hashed[:16]}"


def _unauthorized(message: str) -> GatewayError:
    return GatewayError(message, code="invalid_api_key", status=401)


def _too_much(kind: str, limit: int, verdict: Verdict) -> GatewayError:
    wait_s = max(1, -(-verdict.wait_ms // 1000))
    message = f"This key may use {limit} {kind} a minute and has used {verdict.used}. Try again in {wait_s} s."
    return GatewayError(message, code="rate_limit_exceeded", status=429, retry_after_s=wait_s)
