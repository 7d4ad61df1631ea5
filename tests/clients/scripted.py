"""A model that follows a script: it runs one command by whatever tool the client offers for that, then says so.

It speaks chat completions only, so that every other dialect has to be translated by the gateway in front of it.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

MARK = "sapwood-was-here"
COMMAND = f"echo {MARK} > made.txt && cat made.txt"
DONE = f"All done: {MARK}."
EDIT = f"made.txt\n```\n<<<<<<< SEARCH\n=======\n{MARK}\n>>>>>>> REPLACE\n```\n"
"""For clients without tools that take edits as text."""
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What a client that wants a call in every reply takes for the end."""
_COMMAND_KEYS = ("command", "cmd", "commands")


class Script:
    """The server and what it was asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        routes = [
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/health", self._health),
        ]
        self.app = Starlette(routes=routes)

    @property
    def conversations(self) -> list[dict[str, Any]]:
        """The requests that are the task itself, not a title or a summary on the side."""
        return [body for body in self.requests if body.get("tools")]

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _models(self, _: Request) -> Response:
        entry = {"id": "scripted", "object": "model", "created": 1, "owned_by": "tests", "max_model_len": 200_000}
        return JSONResponse({"object": "list", "data": [entry]})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        message = answer_to(body)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        tokens = len(json.dumps(body)) // 4
        details = {"cached_tokens": tokens // 2}
        usage = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
        usage["prompt_tokens_details"] = details  # type: ignore[assignment]
        if body.get("stream"):
            return StreamingResponse(_stream(message, finish, usage), media_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
        return JSONResponse({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage})


_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "scripted"}


def answer_to(body: Mapping[str, Any]) -> dict[str, Any]:
    """The assistant's next message."""
    messages = body.get("messages") or []
    last = messages[-1] if messages else {}
    tools = body.get("tools") or []
    if last.get("role") == "tool":
        ends = SUBMIT in json.dumps(messages[:2])
        return {"content": DONE, **({"tool_calls": [_command_call(tools, f"echo {SUBMIT}")]} if ends else {})}
    call = _command_call(tools, COMMAND)
    if call is not None:
        return {"content": None, "tool_calls": [call]}
    return {"content": EDIT if "SEARCH" in json.dumps(messages) else "A title"}


def _command_call(tools: Sequence[Mapping[str, Any]], command: str) -> dict[str, Any] | None:
    for tool in tools:
        function = tool.get("function") or {}
        properties = (function.get("parameters") or {}).get("properties") or {}
        key = next((key for key in _COMMAND_KEYS if key in properties), None)
        if key is None:
            continue
        required = set((function.get("parameters") or {}).get("required") or ()) - {key}
        arguments = dict.fromkeys(required, "Write a file") | {key: _as(properties[key], command)}
        return {
            "id": "call_1",
            "type": "function",
            "function": {"name": function["name"], "arguments": json.dumps(arguments)},
        }
    return None


def _as(schema: Mapping[str, Any], command: str) -> Any:
    return [command] if schema.get("type") == "array" or "items" in json.dumps(schema)[:200] else command


def _stream(message: Mapping[str, Any], finish: str, usage: Mapping[str, Any]) -> Iterator[bytes]:
    for delta in ({"role": "assistant", "content": ""}, *_deltas(message), {}):
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else finish}
        yield _event({**_HEAD, "object": "chat.completion.chunk", "choices": [choice]})
    yield _event({**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    text = message.get("content") or ""
    for start in range(0, len(text), 7):
        yield {"content": text[start : start + 7]}
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield {"tool_calls": [{"index": index, **call, "function": {**call["function"], "arguments": ""}}]}
        arguments = call["function"]["arguments"]
        for start in range(0, len(arguments), 9):
            yield {"tool_calls": [{"index": index, "function": {"arguments": arguments[start : start + 9]}}]}


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


@contextmanager
def scripted_upstream() -> Iterator[tuple[Script, str]]:
    """The script and its URL, on a thread of this process."""
    script = Script()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(script.app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield script, f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
