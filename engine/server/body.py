"""Reading a request's body: bounded, JSON, an object; anything else is a clean 4xx."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from engine.errors import RequestError

M = TypeVar("M", bound=BaseModel)


async def read_json(request: Request, limit: int) -> dict[str, Any]:
    """The body as a JSON object. Raises RequestError: 413 `body_too_large`, 400 `invalid_json`."""
    return parse_json(await _read(request, limit))


def parse_json(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw.decode("utf-8"))
        if b"\\ud" in raw.lower():
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise RequestError(f"The body is not UTF-8 (byte {error.start}).", code="invalid_json") from None
    except RecursionError:
        raise RequestError("The body is nested too deeply.", code="invalid_json") from None
    except UnicodeEncodeError:
        raise RequestError("The body holds half of a surrogate pair.", code="invalid_json") from None
    except ValueError as error:
        raise RequestError(f"The body is not valid JSON: {error}", code="invalid_json") from None
    if not isinstance(body, dict):
        raise RequestError("The body must be a JSON object.", code="invalid_json")
    return body


def validate(model: type[M], body: dict[str, Any]) -> M:
    """The body as one of the wire types; the first fault names its field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        fields = [_field(fault["loc"], body, missing=fault["type"] == "missing") for fault in faults]
        same = [at for at, fault in enumerate(faults) if fault["loc"][:1] == faults[0]["loc"][:1]]
        best = max(same, key=lambda at: len(fields[at]))  # of a union's members, the one that fits furthest
        first, param = faults[best], fields[best] or None
        code = "missing_parameter" if first["type"] == "missing" else "invalid_value"
        raise RequestError(f"Invalid value for {param or 'the body'}: {first['msg']}", code=code, param=param) from None


def _field(places: tuple[int | str, ...], body: object, *, missing: bool) -> str:
    """The path of a field as a client wrote it. Pydantic names members of unions on the way, which no body holds."""
    path, at = "", body
    for index, place in enumerate(places):
        if isinstance(place, int) and isinstance(at, list):
            path += f".{place}"
            at = at[place] if place < len(at) else None
        elif isinstance(at, dict) and (place in at or (missing and index == len(places) - 1)):
            path += f".{place}" if path else str(place)
            at = at.get(place)
    return path


async def _read(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise RequestError(f"The body is larger than {limit} bytes.", code="body_too_large", status=413)
        parts.append(part)
    return b"".join(parts)
