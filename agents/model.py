"""The model, over any OpenAI-compatible chat-completions endpoint, streaming.

    ModelError
    ├── Unreachable   nobody answered, or only with 5xx, however often it was tried
    ├── Refused       an answer that trying again will not change (4xx, or an error inside the stream)
    └── Dropped       the stream ended before the turn did

Only what comes before the first byte is tried again here. After it, the caller decides: the conversation
that was sent is in the session file, so asking the same turn again is always possible.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import anyio
import httpx

from agents.state import Call, Message
from agents.stream import Accumulator, Delta, cached_tokens, count

RETRY_DELAYS = (0.2, 0.6)
"""Seconds before the second and third try."""
_TIMEOUT = httpx.Timeout(600, connect=10)
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Where servers say how long a conversation may be, in the entries of `GET /models`."""

Listener = Callable[[Delta], None]


class ModelError(Exception):
    """One line for people; `partial` is what had arrived of the turn."""

    def __init__(self, message: str, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class Unreachable(ModelError):
    pass


class Refused(ModelError):
    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(f"the model refused (HTTP {status}{f', {code}' if code else ''}): {message}")
        self.status, self.code = status, code


class Dropped(ModelError):
    pass


@dataclass(frozen=True)
class Assistant:
    """One turn of the model. `message` is what to append and send back, unchanged."""

    message: Message
    calls: tuple[Call, ...]
    finish_reason: str | None
    prompt: int | None
    cached: int | None
    completion: int | None
    ttft: float
    seconds: float

    @property
    def cost(self) -> dict[str, Any]:
        names = ("prompt", "cached", "completion", "ttft", "seconds")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Listed:
    """A model that the endpoint lists."""

    name: str
    context: int | None = None
    """Tokens, prompt and answer together, where the server says so."""


class Model(Protocol):
    """What the loop needs of a model."""

    async def complete(
        self, request: Mapping[str, Any], session: str, turn: int, hear: Listener = ...
    ) -> Assistant: ...


def ignore(_: Delta) -> None:
    """Nobody listens to the stream."""


class ChatModel:
    """`Model` over HTTP. One instance serves every branch; use it as an async context manager."""

    def __init__(
        self, base_url: str, api_key: str | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.base_url = base_url.rstrip("/")
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        limits = httpx.Limits(max_connections=None)
        loopback = urlsplit(self.base_url).hostname in ("127.0.0.1", "localhost", "::1")
        self.http = httpx.AsyncClient(
            headers=headers, timeout=_TIMEOUT, limits=limits, transport=transport, trust_env=not loopback
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.http.aclose()

    async def models(self) -> list[Listed]:
        """What `GET /models` lists, which must be something."""
        response = await self._send(self.http.build_request("GET", f"{self.base_url}/models", timeout=10))
        try:
            body = json.loads(await response.aread())
            listed = [_listed(entry) for entry in (body["data"] if isinstance(body, dict) else body)]
            return [listed[0], *listed[1:]]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, httpx.RequestError) as error:
            raise Refused(200, None, f"{self.base_url}/models lists no model: give one with --model") from error
        finally:
            await response.aclose()

    async def listed(self, name: str) -> Listed | None:
        """What `GET /models` says of one model; never an error."""
        try:
            return next((found for found in await self.models() if found.name == name), None)
        except ModelError:
            return None

    async def parameters(self) -> float | None:
        """How many parameters the model has, where the server's /info says so; never an error."""
        root = self.base_url.removesuffix("/v1")
        try:
            info = (await self.http.get(f"{root}/info", timeout=2)).json()
            return float(info["parameters"])
        except (httpx.HTTPError, ValueError, LookupError, TypeError, RecursionError):
            return None

    async def complete(self, request: Mapping[str, Any], session: str, turn: int, hear: Listener = ignore) -> Assistant:
        """Ask for one turn. `request`: a chat-completions body without the stream fields."""
        body = json.dumps({**request, "stream": True, "stream_options": {"include_usage": True}}).encode()
        headers = {"content-type": "application/json", "x-sapwood-session": session}
        url = f"{self.base_url}/chat/completions"
        began = time.monotonic()
        response = await self._send(self.http.build_request("POST", url, content=body, headers=headers))
        try:
            return await _read(response, began, turn, hear)
        finally:
            # A cancelled branch closes its stream here, which tells the server to stop generating.
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        for delay in (*RETRY_DELAYS, None):
            failure = await self._try(request)
            if isinstance(failure, httpx.Response):
                return failure
            if delay is None:
                raise failure
            await anyio.sleep(delay)
        raise AssertionError("unreachable")

    async def _try(self, request: httpx.Request) -> httpx.Response | ModelError:
        """The response, or an error worth another try; anything else is raised."""
        try:
            response = await self.http.send(request, stream=True)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            return Unreachable(f"no answer from {self.base_url}: {str(error) or type(error).__name__}")
        if response.is_success:
            return response
        try:
            status, (code, message) = response.status_code, _error_of(await response.aread())
        except httpx.RequestError:
            status, code, message = response.status_code, None, "the error text was cut off"
        await response.aclose()
        if status == 429 or status >= 500:
            return Unreachable(f"{self.base_url} answers HTTP {status}: {message}")
        raise Refused(status, code, message)


async def _read(response: httpx.Response, began: float, turn: int, hear: Listener) -> Assistant:
    heard, first, complete = Accumulator(), None, False
    try:
        async for chunk in _chunks(response):
            if chunk is None:
                complete = True
                break
            _raise_if_error(chunk, heard)
            for delta in heard.feed(chunk):
                first = first or time.monotonic()
                hear(delta)
    except (AttributeError, TypeError, ValueError) as error:
        raise Dropped(f"the stream is not chat completions: {error}", "".join(heard.content)) from error
    except httpx.RequestError as error:
        why = str(error) or type(error).__name__
        raise Dropped(f"the stream broke off: {why}", "".join(heard.content)) from error
    if not complete and heard.finish_reason is None:
        raise Dropped("the stream ended before the turn did", "".join(heard.content))
    ended = time.monotonic()
    return _assistant(heard, turn, (first or ended) - began, ended - began)


def _listed(entry: Any) -> Listed:
    known = (entry.get(field) for field in _CONTEXT_FIELDS)
    return Listed(str(entry["id"]), next((size for size in known if isinstance(size, int) and size > 0), None))


def _assistant(heard: Accumulator, turn: int, ttft: float, seconds: float) -> Assistant:
    calls = tuple(heard.calls(turn))
    reason = "tool_calls" if calls and heard.finish_reason in (None, "stop") else heard.finish_reason
    prompt, completion = count(heard.usage, "prompt_tokens"), count(heard.usage, "completion_tokens")
    cached = cached_tokens(heard.usage)
    return Assistant(heard.message(turn), calls, reason, prompt, cached, completion, round(ttft, 4), round(seconds, 4))


async def _chunks(response: httpx.Response) -> AsyncIterator[dict[str, Any] | None]:
    """Each chunk of the stream, then None for [DONE]. A plain JSON reply is one chunk and the end."""
    if "json" in response.headers.get("content-type", ""):
        yield _parse((await response.aread()).decode(errors="replace"))
        yield None
        return
    async for line in response.aiter_lines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            yield None
            return
        if data:
            yield _parse(data)


def _parse(text: str) -> dict[str, Any]:
    try:
        chunk = json.loads(text)
    except (ValueError, RecursionError):
        chunk = None
    if not isinstance(chunk, dict):
        raise Dropped(f"the stream is not chat completions: {text[:80]!r}")
    return chunk


def _raise_if_error(chunk: dict[str, Any], heard: Accumulator) -> None:
    if chunk.get("error"):
        _, message = _error_of(json.dumps(chunk).encode())
        raise Dropped(f"the server ended the stream with an error: {message}", "".join(heard.content))


def _error_of(body: bytes) -> tuple[str | None, str]:
    """Code and message of an OpenAI error body, or of whatever else came."""
    try:
        error = json.loads(body)["error"]
        message = error["message"] if isinstance(error, dict) else str(error)
        return (error.get("code") if isinstance(error, dict) else None), " ".join(str(message).split())[:500]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None, " ".join(body.decode(errors="replace").split())[:200] or "no text"
