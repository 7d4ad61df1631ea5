"""The gateway's errors, each in the shape that OpenAI's clients parse.

StartError      the gateway can't start: one line, exit status 2
GatewayError    one request is refused: an HTTP status and OpenAI's error object
ClientGone      the client left; nothing can be answered any more
"""

from __future__ import annotations

import json


class StartError(Exception):
    """The gateway can't start: a taken port, a URL that is none. Shown as one line."""


class ClientGone(Exception):
    """The client closed its connection before it had the whole answer."""


class GatewayError(Exception):
    """A request that the gateway itself answers. `code` is stable, so that clients can rely on it."""

    def __init__(
        self, message: str, *, code: str, status: int, retry_after_s: int | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.retry_after_s = retry_after_s
        self.param = param

    def payload(self) -> bytes:
        """The JSON body: `{"error": {message, type, param, code}}`."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return json.dumps({"error": error}).encode()


def invalid_json(why: str) -> GatewayError:
    return GatewayError(f"The request body {why}.", code="invalid_json", status=400)


def body_too_large(limit: int) -> GatewayError:
    return GatewayError(
        f"The request body is larger than {limit} bytes, this gateway's limit.",
        code="body_too_large",
        status=413,
    )


def head_too_large(limit: int) -> GatewayError:
    return GatewayError(
        f"The request's line and headers are larger than {limit} bytes, this gateway's limit.",
        code="head_too_large",
        status=431,
    )


def client_too_slow(part: str, timeout_s: float) -> GatewayError:
    message = f"The request's {part} did not come in time: it has {timeout_s:g} s."
    return GatewayError(message, code="client_too_slow", status=408)


def no_replica(detail: str) -> GatewayError:
    return GatewayError(
        f"No healthy replica can take the request ({detail}). Try again shortly.",
        code="no_replica",
        status=503,
        retry_after_s=1,
    )


def upstream_timeout(replica: str) -> GatewayError:
    return GatewayError(f"The replica {replica} did not answer in time.", code="upstream_timeout", status=504)


def upstream_died(replica: str) -> GatewayError:
    return GatewayError(
        f"The replica {replica} closed the connection before its answer was complete.",
        code="upstream_died",
        status=502,
    )


def shutting_down() -> GatewayError:
    return GatewayError("This gateway is shutting down.", code="shutting_down", status=503, retry_after_s=1)


def internal_error() -> GatewayError:
    return GatewayError("The gateway failed; its log says why.", code="internal_error", status=500)
