"""The access log: one line of JSON for each request, at its end. No contents, no keys."""

from __future__ import annotations

import logging
import sys
from logging.handlers import WatchedFileHandler

import orjson

from gateway.errors import StartError
from gateway.observe.describe import flat
from gateway.observe.records import RequestRecord

STDERR = "-"


class AccessLog:
    """A sink of observations. A file that was moved away by a rotation is opened anew."""

    def __init__(self, target: str) -> None:
        """StartError if the file `target` can't be written; `-` is stderr."""
        try:
            self._handler = logging.StreamHandler(sys.stderr) if target == STDERR else WatchedFileHandler(target)
        except OSError as error:
            raise StartError(f"can't write the access log {target}: {error.strerror or error}") from None

    def __call__(self, record: RequestRecord) -> None:
        line = orjson.dumps(flat(record)).decode()
        self._handler.handle(logging.LogRecord("sapwood.access", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        self._handler.close()
