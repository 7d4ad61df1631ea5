"""POST /tokenize and /detokenize, in the shapes of vLLM: what the engine would compute for a text or a chat."""

from __future__ import annotations

from anyio import to_thread
from pydantic import BaseModel, StrictBool, StrictStr
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.errors import RequestError
from engine.server.body import read_json, validate
from engine.server.prepare import Preparer
from engine.server.service import Service, caller_of
from engine.server.wire import ChatRequest, Tokens


class TokenizeRequest(BaseModel):
    """A text; a chat has `messages` instead, and is read as ChatRequest."""

    model: StrictStr | None = None
    prompt: StrictStr
    return_token_strs: StrictBool | None = None


class TokenizeChatRequest(ChatRequest):
    return_token_strs: StrictBool | None = None


class DetokenizeRequest(BaseModel):
    model: StrictStr | None = None
    tokens: Tokens


async def tokenize(http: Request) -> Response:
    service: Service = http.app.state.service
    raw = await read_json(http, service.config.max_body_bytes)
    chat = raw.get("messages") is not None
    body = validate(TokenizeChatRequest, raw) if chat else validate(TokenizeRequest, raw)
    service.check_model(body.model)
    preparer = service.preparer
    if isinstance(body, TokenizeChatRequest):
        ids = await to_thread.run_sync(preparer.history, body, caller_of(http))
    else:
        ids = await to_thread.run_sync(_encode, preparer, body.prompt)
    return JSONResponse(
        {
            "count": len(ids),
            "max_model_len": preparer.limits.longest,
            "tokens": ids,
            "token_strs": [preparer.tokenizer.text_of(i) for i in ids] if body.return_token_strs else None,
        }
    )


async def detokenize(http: Request) -> Response:
    service: Service = http.app.state.service
    body = validate(DetokenizeRequest, await read_json(http, service.config.max_body_bytes))
    service.check_model(body.model)
    tokenizer = service.preparer.tokenizer
    unknown = next((token for token in body.tokens if token >= tokenizer.vocab_size), None)
    if unknown is not None:
        raise RequestError(f"Token id {unknown} is not in the vocabulary.", code="invalid_value", param="tokens")
    return JSONResponse({"prompt": await to_thread.run_sync(tokenizer.decode, body.tokens)})


def _encode(preparer: Preparer, text: str) -> list[int]:
    """Like a prompt: megabytes that could never be one aren't worth seconds of a core."""
    fewest = preparer.tokenizer.at_least(len(text))
    if fewest > preparer.limits.longest:
        message = f"The prompt has at least {fewest} tokens; this model's context is {preparer.limits.longest}."
        raise RequestError(message, code="context_length_exceeded", param="prompt")
    return preparer.tokenizer.encode(text)
