"""GET /openapi.json: the HTTP interface as an OpenAPI 3.1 document, generated from the types that read the bodies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.server.cache_routes import RetainRequest, SessionRequest, WarmRequest
from engine.server.embeddings import EmbeddingRequest
from engine.server.tokenize import DetokenizeRequest, TokenizeChatRequest, TokenizeRequest
from engine.server.wire import ChatRequest, CompletionRequest

_SCHEMAS = "#/components/schemas/"
_NULLABLE_TEXT = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": _NULLABLE_TEXT,
                "code": {"type": "string"},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}


@dataclass(frozen=True)
class Operation:
    """One path and method. `bodies` are alternatives; none means GET."""

    path: str
    summary: str
    bodies: tuple[type[BaseModel], ...] = ()
    media_type: str = "application/json"


OPERATIONS = (
    Operation("/v1/chat/completions", "Answer a chat, whole or as a stream of server-sent events", (ChatRequest,)),
    Operation("/v1/completions", "Continue text or tokens", (CompletionRequest,)),
    Operation("/v1/embeddings", "The mean of a text's last hidden states", (EmbeddingRequest,)),
    Operation("/v1/models", "The model that is served"),
    Operation("/tokenize", "The tokens of a text or a chat", (TokenizeRequest, TokenizeChatRequest)),
    Operation("/detokenize", "The text of tokens", (DetokenizeRequest,)),
    Operation("/info", "What this engine is and offers"),
    Operation("/cache", "Sizes and hit ratio of the cache"),
    Operation("/cache/tree", "The radix tree in counts"),
    Operation("/cache/retain", "Evict a conversation's prefix last", (RetainRequest, SessionRequest)),
    Operation("/cache/release", "End a retention", (RetainRequest, SessionRequest)),
    Operation("/cache/warm", "Compute a prefix, generate nothing", (WarmRequest,)),
    Operation("/health", "The process answers and the engine thread lives"),
    Operation("/ready", "The engine thread answers"),
    Operation("/metrics", "Prometheus metrics", media_type="text/plain"),
    Operation("/openapi.json", "This document"),
)


async def openapi(_: Request) -> Response:
    return JSONResponse(document())


@cache
def document() -> dict[str, Any]:
    """The same for every engine: it depends on the code only."""
    bodies = dict.fromkeys(body for operation in OPERATIONS for body in operation.bodies)
    models = [(body, "validation") for body in bodies]
    _, definitions = models_json_schema(models, ref_template=f"{_SCHEMAS}{{model}}")  # type: ignore[arg-type]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sapwood engine", "version": "1"},
        "paths": {operation.path: _path(operation) for operation in OPERATIONS},
        "components": {"schemas": {**definitions["$defs"], "Error": _ERROR}},
    }


def _path(operation: Operation) -> dict[str, Any]:
    media: dict[str, Any] = {operation.media_type: {}}
    if operation.bodies == (ChatRequest,) or operation.bodies == (CompletionRequest,):
        media["text/event-stream"] = {}
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.path.strip("/").replace("/", "_").replace(".", "_"),
        "responses": {
            "200": {"description": "OK", "content": media},
            "default": {"description": "Refused or failed", "content": _json({"$ref": f"{_SCHEMAS}Error"})},
        },
    }
    if not operation.bodies:
        return {"get": described}
    refs = [{"$ref": _SCHEMAS + body.__name__} for body in operation.bodies]
    schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
    return {"post": {**described, "requestBody": {"required": True, "content": _json(schema)}}}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
