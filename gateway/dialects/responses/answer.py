"""One answer as a Response object or as its stream of events.

Both come from the same items, so a stream's last event holds what the plain answer would have been. Ids are made once:
`resp_…` and, from it, those of the items.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any

from gateway.dialects.responses.delta import read_piece, read_usage
from gateway.dialects.responses.envelope import Envelope, Progress, Status
from gateway.dialects.responses.items import Event
from gateway.dialects.responses.output import Output
from gateway.dialects.translate import Failure


class Phase(Enum):
    SILENT = auto()
    BEGUN = auto()
    OVER = auto()


class Answer:
    """An `AnswerWriter`."""

    def __init__(self, envelope: Envelope, output: Output) -> None:
        self._envelope = envelope
        self._output = output
        self._phase = Phase.SILENT
        self._sequence = 0
        self._model = ""
        self._usage: dict[str, Any] | None = None
        self._stopped_early: str | None = None

    def whole(self, answer: Mapping[str, Any]) -> bytes:
        self._hear(answer, "message")
        status = self._final_status()
        self._output.finish(status)
        return self._response(status).encode()

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        if self._phase is Phase.OVER:
            return b""
        events = self._hear(chunk, "delta")
        return self._begin() + self._frames(events)

    def end(self) -> bytes:
        if self._phase is Phase.OVER:
            return b""
        status = self._final_status()
        said = self._begin() + self._frames(self._output.finish(status))
        self._phase = Phase.OVER
        return said + self._lifecycle(status.value, self._response(status))

    def fail(self, failure: Failure) -> bytes:
        if self._phase is Phase.OVER:
            return b""
        said = self._begin()
        self._phase = Phase.OVER
        self._output.abandon()
        error = {"code": failure.code, "message": failure.message, "param": failure.param}
        return said + self._lifecycle("failed", self._response(Status.FAILED, error))

    def heartbeat(self) -> bytes:
        if self._phase is Phase.OVER:
            return b""
        if self._phase is Phase.SILENT:
            return self._begin()
        return self._lifecycle("in_progress", self._response(Status.IN_PROGRESS))

    def _hear(self, answer: Mapping[str, Any], key: str) -> list[Event]:
        model = answer.get("model")
        if not self._model and isinstance(model, str):
            self._model = model
        self._usage = read_usage(answer) or self._usage
        piece = read_piece(answer, key)
        if piece is None:
            return []
        self._stopped_early = piece.stopped_early or self._stopped_early
        return self._output.hear(piece)

    def _begin(self) -> bytes:
        if self._phase is not Phase.SILENT:
            return b""
        self._phase = Phase.BEGUN
        progress = Progress(Status.IN_PROGRESS, [], self._model)
        response = self._envelope.response(progress)
        return self._lifecycle("created", response) + self._lifecycle("in_progress", response)

    def _final_status(self) -> Status:
        return Status.INCOMPLETE if self._stopped_early else Status.COMPLETED

    def _response(self, status: Status, error: Mapping[str, Any] | None = None) -> str:
        because = self._stopped_early if status is Status.INCOMPLETE else None
        progress = Progress(status, self._output.json(), self._model, self._usage, because, error)
        return self._envelope.response(progress)

    def _lifecycle(self, name: str, response: str) -> bytes:
        return self._frame(f"response.{name}", f'"response":{response}}}')

    def _frames(self, events: Iterable[Event]) -> bytes:
        return b"".join(self._frame(kind, json.dumps(fields, separators=(",", ":"))[1:]) for kind, fields in events)

    def _frame(self, kind: str, rest: str) -> bytes:
        """One server-sent event; `rest` is the JSON of its fields without the opening brace."""
        number = self._sequence
        self._sequence += 1
        return f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":{number},{rest}\n\n'.encode()
