"""The dialect itself: a `Translator`."""

from __future__ import annotations

import json
import secrets
import time

from gateway.dialects.base import Body
from gateway.dialects.responses.answer import Answer
from gateway.dialects.responses.envelope import Envelope, echoes
from gateway.dialects.responses.fields import Fields
from gateway.dialects.responses.history import read_input
from gateway.dialects.responses.output import Output
from gateway.dialects.responses.request import SEALED_REASONING, chat_request, included, refuse_unsupported
from gateway.dialects.responses.tools import read_tools
from gateway.dialects.translate import Exchange, Failure


class Responses:
    def exchange(self, body: Body) -> Exchange:
        fields = Fields(body)
        refuse_unsupported(fields)
        tools = read_tools(fields)
        history = read_input(fields, tools.names)
        chat, choice = chat_request(fields, history.messages(), tools)
        answer_id = secrets.token_hex(16)
        envelope = Envelope(f"resp_{answer_id}", int(time.time()), echoes(fields, tools, choice))
        reasoning = fields.mapping("reasoning")
        output = Output(
            answer_id,
            tools.names,
            as_summary=bool(reasoning and reasoning.text("summary")),
            sealed=SEALED_REASONING in included(fields),
        )
        stored = ("store ignored",) if fields.flag("store") else ()
        return Exchange(
            body=chat,
            stream=bool(fields.flag("stream")),
            answer=Answer(envelope, output),
            warnings=(*tools.warnings, *choice.warnings, *history.warnings, *stored),
            fails_as_event=frozenset({"context_length_exceeded"}),
        )

    def error(self, failure: Failure) -> bytes:
        kind = "rate_limit_error" if failure.status == 429 else "invalid_request_error"
        error = {
            "message": failure.message,
            "type": kind if failure.status < 500 else "server_error",
            "param": failure.param,
            "code": failure.code,
        }
        return json.dumps({"error": error}).encode()
