"""POST /v1/embeddings: texts or tokens in, the mean of the model's last hidden states out.

A request's texts go to the engine one after the other: those of several clients take turns, and one that leaves takes
all but the piece under way with it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

import numpy as np
from anyio import to_thread
from pydantic import BaseModel, Field, StrictInt, StrictStr, WithJsonSchema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.core import Engine
from engine.errors import RequestError
from engine.server.body import read_json, validate
from engine.server.disconnect import ClientGone, unless_gone
from engine.server.errors import CLIENT_CLOSED, error_body
from engine.server.prepare import Preparer
from engine.server.service import Service
from engine.server.shapes import MAX_INPUTS, TEXTS_OR_TOKENS


class Encoding(Enum):
    """How a vector is written: as JSON numbers, or as little-endian float32 in base64."""

    FLOAT = "float"
    BASE64 = "base64"

    def write(self, vector: Sequence[float]) -> str:
        """As JSON."""
        if self is Encoding.FLOAT:
            return json.dumps(vector, allow_nan=False, separators=(",", ":"))
        return json.dumps(base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode("ascii"))


class EmbeddingRequest(BaseModel):
    model: StrictStr | None = None
    input: Annotated[Any, WithJsonSchema(TEXTS_OR_TOKENS)]
    """Read by `read_inputs`."""
    encoding_format: Encoding | None = None
    dimensions: Annotated[StrictInt, Field(ge=1)] | None = None


async def embeddings(http: Request) -> Response:
    service: Service = http.app.state.service
    body = validate(EmbeddingRequest, await read_json(http, service.config.max_body_bytes))
    service.check_model(body.model)
    _check_dimensions(body.dimensions, service.engine.decoder.config.hidden_size)
    with service.embedding():
        inputs = await to_thread.run_sync(read_inputs, body.input, service.preparer)
        written = _written(service.engine, inputs, body.encoding_format or Encoding.FLOAT)
        try:
            vectors = await unless_gone(http, written)
        except ClientGone:
            return Response(status_code=CLIENT_CLOSED)
        except asyncio.CancelledError:  # only by the server, when its time to drain is over
            return JSONResponse(error_body("This engine is shutting down.", "shutting_down", status=503), 503)
    answer = _answer(service.model, vectors, sum(map(len, inputs)))
    return Response(answer, headers=service.headers(), media_type="application/json")


def read_inputs(value: object, preparer: Preparer) -> list[list[int]]:
    """The tokens of each text. RequestError where one is empty, too long or no text."""
    if not isinstance(value, (str, list)):
        raise _invalid("input must be a string, token ids, or a list of either.", "input")
    if not value:
        raise _invalid("input must not be empty.", "input")
    if isinstance(value, str) or not isinstance(value[0], (str, list)):
        return [_read(value, "input", preparer)]
    if len(value) > MAX_INPUTS:
        raise _invalid(f"input has {len(value)} texts; at most {MAX_INPUTS} are embedded at once.", "input")
    return [_read(item, f"input.{index}", preparer) for index, item in enumerate(value)]


def _read(item: object, param: str, preparer: Preparer) -> list[int]:
    if isinstance(item, str):
        _check_length(preparer.tokenizer.at_least(len(item)), "at least ", param, preparer)
        ids = preparer.tokenizer.encode(item)
    elif isinstance(item, list):
        ids = _token_ids(item, param, preparer.tokenizer.vocab_size)
    else:
        raise _invalid(f"{param} must be a string or token ids.", param)
    if not ids:
        raise _invalid(f"{param} must not be empty.", param)
    _check_length(len(ids), "", param, preparer)
    return ids


def _token_ids(items: list[Any], param: str, vocab_size: int) -> list[int]:
    for index, item in enumerate(items):
        if type(item) is not int:
            raise _invalid(f"{param} must hold only integers as token ids (item {index} is none).", param)
        if not 0 <= item < vocab_size:
            raise _invalid(f"Token id {item} is not in the vocabulary.", param)
    return items


def _check_length(tokens: int, least: str, param: str, preparer: Preparer) -> None:
    longest = preparer.limits.longest
    if tokens > longest:
        message = f"{param} has {least}{tokens} tokens; this model's context is {longest}."
        raise RequestError(message, code="context_length_exceeded", param=param)


def _check_dimensions(asked: int | None, size: int) -> None:
    if asked is not None and asked != size:
        message = f"This model's embeddings have {size} dimensions, and can't be shortened: leave dimensions out."
        raise RequestError(message, code="unsupported_parameter", param="dimensions")


def _invalid(message: str, param: str) -> RequestError:
    return RequestError(message, code="invalid_value", param=param)


async def _written(engine: Engine, inputs: Sequence[Sequence[int]], encoding: Encoding) -> list[str]:
    """Each vector as JSON, written as it comes: thousands at once would hold up the event loop."""
    vectors = []
    for ids in inputs:
        try:
            vector = await asyncio.wrap_future(engine.embed(ids))
        except Exception as error:
            message = "The embedding could not be computed: internal error"
            raise RequestError(message, code="generation_failed", status=500) from error
        vectors.append(encoding.write(vector))
    return vectors


def _answer(model: str, vectors: Sequence[str], tokens: int) -> str:
    data = ",".join(f'{{"object":"embedding","index":{i},"embedding":{vector}}}' for i, vector in enumerate(vectors))
    usage = json.dumps({"prompt_tokens": tokens, "total_tokens": tokens})
    return f'{{"object":"list","data":[{data}],"model":{json.dumps(model)},"usage":{usage}}}'
