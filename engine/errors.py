"""The engine's errors, each with what a person needs to act on it.

SapwoodError
├── StartError        the engine can't start: one line, exit status 2
└── RequestError      one request is refused: an HTTP status and OpenAI's error shape
"""

from __future__ import annotations


class SapwoodError(Exception):
    """Base of every error that is shown to a user as one line, without a traceback."""


class StartError(SapwoodError):
    """The engine can't start: a missing model, a damaged file, a port that is taken."""


class RequestError(SapwoodError):
    """A request that is refused. `code` is stable, `param` names the field at fault."""

    def __init__(self, message: str, *, code: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.status = status
