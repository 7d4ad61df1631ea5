"""What Sapwood's gateway and engine offer beside chat: hold a conversation's prefix, and say what was reused.

Any other endpoint has none of it; then nothing is asked twice and nothing fails.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

_TIMEOUT = 5.0


class CacheApi:
    def __init__(self, http: httpx.AsyncClient, base_url: str) -> None:
        self._http, self._root = http, base_url.rstrip("/").removesuffix("/v1")
        self._offered = True

    async def retain(self, session: str, seconds: float) -> None:
        await self._tell("/cache/retain", {"session": session, "seconds": seconds})

    async def release(self, session: str) -> None:
        await self._tell("/cache/release", {"session": session})

    async def session(self, name: str) -> dict[str, Any] | None:
        """The gateway's own account of a session's requests, newest first; None where there is none."""
        try:
            answer = await self._http.get(f"{self._root}/sessions/{quote(name, safe='')}", timeout=_TIMEOUT)
            body = answer.json() if answer.is_success else None
        except (httpx.HTTPError, ValueError, RecursionError):
            return None
        return body if isinstance(body, dict) and isinstance(body.get("requests"), list) else None

    async def _tell(self, path: str, body: dict[str, Any]) -> None:
        if not self._offered:
            return
        try:
            answer = await self._http.post(self._root + path, json=body, timeout=_TIMEOUT)
        except httpx.HTTPError:
            return
        self._offered = answer.status_code not in (404, 405, 501)
