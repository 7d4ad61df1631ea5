"""The OpenAI endpoints: read, prepare off the event loop, run, render."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.core import Event
from engine.schedule.request import Finish
from engine.server.body import read_json, validate
from engine.server.chat import ChatAnswer
from engine.server.completions import CompletionAnswer
from engine.server.disconnect import ClientGone, unless_gone
from engine.server.errors import CLIENT_CLOSED, error_body
from engine.server.prepare import Caller, ChatCall
from engine.server.service import Service, caller_of
from engine.server.sse import stream
from engine.server.wire import ChatRequest, CompletionRequest


async def chat_completions(http: Request) -> Response:
    service: Service = http.app.state.service
    body = validate(ChatRequest, await read_json(http, service.config.max_body_bytes))
    service.check_model(body.model)
    service.dispatcher.check_room(body.choices)
    caller = caller_of(http)
    call = await to_thread.run_sync(service.preparer.chat, body, caller)
    answer = ChatAnswer(
        service.model,
        service.preparer.tokenizer,
        service.preparer.tool_format,
        call.requests,
        call.tools,
        body.include_usage,
    )
    events = _remembered(service, caller, call, service.run(call.requests))
    return await _respond(http, service, answer, events, bool(body.stream))


async def completions(http: Request) -> Response:
    service: Service = http.app.state.service
    body = validate(CompletionRequest, await read_json(http, service.config.max_body_bytes))
    service.check_model(body.model)
    service.dispatcher.check_room(body.choices * len(body.prompts))
    groups = await to_thread.run_sync(service.preparer.completion, body, caller_of(http))
    answer = CompletionAnswer(service.model, service.preparer.tokenizer, groups, bool(body.echo), body.include_usage)
    events = service.run([request for _, requests in groups for request in requests])
    return await _respond(http, service, answer, events, bool(body.stream))


async def models(http: Request) -> Response:
    service: Service = http.app.state.service
    limits = service.preparer.limits
    model = {
        "id": service.model,
        "object": "model",
        "created": service.created,
        "owned_by": "sapwood",
        "max_model_len": limits.longest,
    }
    return JSONResponse({"object": "list", "data": [model]})


async def _respond(
    http: Request,
    service: Service,
    answer: ChatAnswer | CompletionAnswer,
    events: AsyncIterator[Event],
    streaming: bool,
) -> Response:
    if streaming:
        return stream(answer.stream(events), service.headers())
    try:
        whole = await unless_gone(http, answer.whole(events))
    except ClientGone:
        return Response(status_code=CLIENT_CLOSED)
    except asyncio.CancelledError:  # only by the server, when its time to drain is over
        return JSONResponse(error_body("This engine is shutting down.", "shutting_down", status=503), 503)
    if answer.error is not None:
        return JSONResponse(error_body(answer.error, "generation_failed", status=500), 500)
    return JSONResponse(whole, headers=service.headers())


async def _remembered(
    service: Service, caller: Caller, call: ChatCall, events: AsyncGenerator[Event, None]
) -> AsyncIterator[Event]:
    """Pass events on. The exact tokens of each turn that ends well go into the transcript, and the cache hears of
    each turn's begin and end, so that it knows what a session has left behind."""
    service.begin_turn(caller, call.prompt.ids)
    try:
        async with aclosing(events):
            async for event in events:
                if event.finish in (Finish.STOP, Finish.LENGTH):
                    service.preparer.remember(caller, call.prompt, event.request)
                yield event
    finally:
        service.end_turn(caller, call.prompt.ids, call.requests)
