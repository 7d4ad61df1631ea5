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
from engine.server.warm import compute_ahead
from engine.server.wire import ChatRequest, CompletionRequest

UNENFORCED = "x-sapwood-unenforced"
"""Names the places in the tools' schemas that the answer is not held to."""
MAX_HEADER = 1024


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
        call.requests,
        lambda: service.preparer.dialect.stream(call.tools, call.prompt.begun),
        body.include_usage,
        body.continuous_usage,
    )
    events = _remembered(service, caller, call, answer, service.run(call.requests))
    response = await _respond(http, service, answer, events, bool(body.stream))
    if places := call.unenforced:
        response.headers[UNENFORCED] = ", ".join(
            place.encode("ascii", "backslashreplace").decode() for place in places
        )[:MAX_HEADER]
    return response


async def completions(http: Request) -> Response:
    service: Service = http.app.state.service
    body = validate(CompletionRequest, await read_json(http, service.config.max_body_bytes))
    service.check_model(body.model)
    service.dispatcher.check_room(body.choices * len(body.prompts))
    groups = await to_thread.run_sync(service.preparer.completion, body, caller_of(http))
    answer = CompletionAnswer(
        service.model,
        service.preparer.tokenizer,
        groups,
        bool(body.echo),
        body.include_usage,
        body.continuous_usage,
    )
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
    service: Service, caller: Caller, call: ChatCall, answer: ChatAnswer, events: AsyncGenerator[Event, None]
) -> AsyncIterator[Event]:
    """Pass events on. The exact tokens of each turn go into the transcript before its last event is passed on, or as
    far as it was passed on when the client left. The cache hears of each turn's begin and end, so that it knows what a
    session has left behind."""
    service.begin_turn(caller, call.prompt.ids)
    remember, seen = service.preparer.remember, {request: list[str]() for request in call.requests}
    ids = {request: choice.parser.call_ids for request, choice in answer.choices.items()}
    try:
        async with aclosing(events):
            async for event in events:
                seen[event.request].append(event.text)
                if event.finish in (Finish.STOP, Finish.LENGTH):
                    del seen[event.request]
                    await to_thread.run_sync(remember, caller, call, event.request, None, ids[event.request])
                    if caller.ahead and event.finish is Finish.STOP and len(call.requests) == 1:
                        service.in_background(_ahead(service, caller, call, ids[event.request]))
                yield event
    finally:
        service.end_turn(caller, call.prompt.ids, call.requests)
        for request, pieces in seen.items():
            if said := "".join(pieces):
                service.in_background(to_thread.run_sync(remember, caller, call, request, said, ids[request]))


async def _ahead(service: Service, caller: Caller, call: ChatCall, call_ids: list[str]) -> None:
    """While the tools run, or the user reads: compute what the next prompt begins with, where the template writes this
    turn otherwise than it was generated, such as without its reasoning."""
    ids = await to_thread.run_sync(service.preparer.ahead, caller, call, call.requests[0], call_ids)
    if ids and (warmed := await compute_ahead(service, caller.tenant, ids, caller.retain_seconds)):
        service.metrics.ahead.inc(warmed.warmed_tokens - warmed.cached_tokens)
