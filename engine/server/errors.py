"""Refusals in OpenAI's error shape."""

from __future__ import annotations

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.errors import RequestError

CLIENT_CLOSED = 499

log = logging.getLogger("sapwood.engine")


def error_body(message: str, code: str, param: str | None = None, status: int = 400) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


async def refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    body = error_body(error.message, error.code, error.param, error.status)
    return JSONResponse(body, error.status)


async def http_error(request: Request, error: Exception) -> JSONResponse:
    """Unknown paths and methods."""
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    message = f"{request.method} {request.url.path}: {error.detail}"
    return JSONResponse(error_body(message, code, status=error.status_code), error.status_code)


async def hung_up(_: Request, __: Exception) -> Response:
    """The client left in the middle of its body: nobody reads this, and nothing went wrong here."""
    return Response(status_code=CLIENT_CLOSED)


async def crashed(_: Request, error: Exception) -> JSONResponse:
    log.error("a request failed", exc_info=error)
    return JSONResponse(error_body("internal error", "internal_error", status=500), 500)
