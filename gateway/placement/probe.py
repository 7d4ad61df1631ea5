"""One probe of one replica: is it up, under which epoch, with which models. No state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from gateway.config_pools import UpstreamKind
from gateway.placement.replica import DownCause, Terms

NOT_OFFERED = frozenset({404, 405, 501})
WITH_INFO = frozenset({UpstreamKind.OPENAI, UpstreamKind.SAPWOOD})
"""Kinds that have an `/info` with an epoch, or of which nobody knows."""


@dataclass(frozen=True, slots=True)
class Up:
    epoch: str | None
    """What the replica announces; None for a server without `/info`."""
    offers: frozenset[str] = frozenset()
    """What it can do beyond OpenAI's interface, by its own words."""


@dataclass(frozen=True, slots=True)
class Down:
    cause: DownCause
    detail: str


async def probe_health(http: httpx.AsyncClient, url: str, terms: Terms) -> Up | Down:
    """`/health`, or `/v1/models` where there is none, then `/info` for the epoch of those that may have it."""
    headers = _credentials(terms)
    try:
        health = await http.get(f"{url}/health", headers=headers)
        if health.status_code in NOT_OFFERED:
            health = await http.get(f"{url}/v1/models", headers=headers)
        if health.status_code >= 500 or health.status_code in NOT_OFFERED:
            return Down(DownCause.UNWELL, f"its health check answered {health.status_code}")
        return _up(await http.get(f"{url}/info", headers=headers)) if terms.kind in WITH_INFO else Up(None)
    except httpx.TimeoutException:
        return Down(DownCause.SILENT, "its health check timed out")
    except httpx.HTTPError as error:
        return Down(DownCause.GONE, f"no connection: {error or type(error).__name__}")


async def probe_models(http: httpx.AsyncClient, url: str, terms: Terms) -> Mapping[str, Mapping[str, Any]]:
    """The entries of the replica's model list by id; empty when it does not tell."""
    try:
        answer = (await http.get(f"{url}/v1/models", headers=_credentials(terms))).json()
    except (httpx.HTTPError, ValueError, RecursionError):
        return {}
    data = answer.get("data") if isinstance(answer, dict) else None
    entries = data if isinstance(data, list) else []
    return {entry["id"]: entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)}


def _credentials(terms: Terms) -> Mapping[str, str]:
    return {"authorization": f"Bearer {terms.credential}"} if terms.credential else {}


def _up(info: httpx.Response) -> Up:
    if info.status_code != 200:
        return Up(None)
    try:
        body = info.json()
    except (ValueError, RecursionError):
        return Up(None)
    told = body if isinstance(body, dict) else {}
    epoch, offers = told.get("epoch"), told.get("offers")
    return Up(
        str(epoch) if isinstance(epoch, str | int) and str(epoch) else None,
        frozenset(offer for offer in offers if isinstance(offer, str)) if isinstance(offers, list) else frozenset(),
    )
