"""The endpoints that a gateway uses beyond OpenAI's: what this engine is, and what its cache holds."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from anyio import to_thread
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, Field, StrictBool, StrictStr
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from engine.cache.manager import KVCache
from engine.server.body import read_json, validate
from engine.server.disconnect import ClientGone, unless_gone
from engine.server.errors import CLIENT_CLOSED, error_body
from engine.server.service import MAX_RETAIN_SECONDS, Service, caller_of
from engine.server.warm import compute_prefix
from engine.server.wire import ChatRequest


class RetainRequest(ChatRequest):
    """A conversation as in a chat request, whose cached prefix is to be kept for some time."""

    seconds: Annotated[float, Field(gt=0, le=MAX_RETAIN_SECONDS)] = 60.0


class SessionRequest(BaseModel):
    """The newest turn of a session, by the name that `x-sapwood-session` gave it: nothing has to be sent again."""

    session: Annotated[StrictStr, Field(min_length=1)]
    seconds: Annotated[float, Field(gt=0, le=MAX_RETAIN_SECONDS)] = 60.0


class WarmRequest(ChatRequest):
    """A conversation as in a chat request, at least its beginning, to be computed before anyone asks for it."""

    seconds: Annotated[float, Field(gt=0, le=MAX_RETAIN_SECONDS)] | None = None
    wait: StrictBool | None = None


async def info(http: Request) -> Response:
    service: Service = http.app.state.service
    config, limits = service.engine.decoder.config, service.preparer.limits
    return JSONResponse(
        {
            "engine": "sapwood",
            "model": service.model,
            "epoch": service.epoch,
            "architecture": config.architecture,
            "parameters": config.parameters,
            "max_context": limits.longest,
            "kv_tokens": service.engine.cache.capacity,
            "page_size": service.engine.cache.page_size,
            "max_running": service.config.max_running,
            "offers": ["retain", "release", "session", "tree", "warm", "ahead", "embeddings"],
        }
    )


async def cache(http: Request) -> Response:
    service: Service = http.app.state.service
    stats = await _on_engine(service, KVCache.stats)
    return JSONResponse({"epoch": service.epoch, **asdict(stats), "hit_ratio": stats.hit_ratio})


async def cache_tree(http: Request) -> Response:
    service: Service = http.app.state.service
    return JSONResponse(await _on_engine(service, KVCache.tree))


async def retain(http: Request) -> Response:
    service: Service = http.app.state.service
    named, tenant, ids, seconds = await _kept(http)
    if named is not None:
        tokens = await _on_engine(service, lambda kv: kv.retain_session(tenant, named, seconds))
    else:
        tokens = await _on_engine(service, lambda kv: kv.retain(tenant, ids, seconds))
    return JSONResponse({"retained_tokens": tokens})


async def release(http: Request) -> Response:
    service: Service = http.app.state.service
    named, tenant, ids, _ = await _kept(http)
    if named is not None:
        tokens = await _on_engine(service, lambda kv: kv.release_session(tenant, named))
    else:
        tokens = await _on_engine(service, lambda kv: kv.release(tenant, ids))
    return JSONResponse({"released_tokens": tokens})


async def warm(http: Request) -> Response:
    """Answers when the prefix is computed, or with `wait: false` at once."""
    service: Service = http.app.state.service
    body = validate(WarmRequest, await read_json(http, service.config.max_body_bytes))
    service.check_model(body.model)
    service.dispatcher.check_room(1)
    caller = caller_of(http)
    ids = await to_thread.run_sync(service.preparer.prefix, body, caller)
    work = compute_prefix(service, caller.tenant, ids, body.seconds or caller.retain_seconds)
    if body.wait is False:
        service.in_background(work)
        return JSONResponse({"prompt_tokens": len(ids)}, 202)
    try:
        warmed = await unless_gone(http, work)
    except ClientGone:
        return Response(status_code=CLIENT_CLOSED)
    except asyncio.CancelledError:  # only by the server, when its time to drain is over
        return JSONResponse(error_body("This engine is shutting down.", "shutting_down", status=503), 503)
    return JSONResponse(asdict(warmed))


async def health(http: Request) -> Response:
    service: Service = http.app.state.service
    if not service.engine.alive:
        return JSONResponse(error_body("The engine has stopped; restart it.", "engine_dead", status=503), 503)
    return JSONResponse({"status": "ok"})


async def ready(http: Request) -> Response:
    """The engine thread answers: it is alive and between two steps."""
    service: Service = http.app.state.service
    await _on_engine(service, lambda _: None)
    return JSONResponse({"status": "ready", "model": service.model, "epoch": service.epoch})


async def metrics(http: Request) -> Response:
    service: Service = http.app.state.service
    return PlainTextResponse(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)


async def _on_engine(service: Service, function: Any) -> Any:
    return await asyncio.wrap_future(service.engine.call(function))


async def _kept(http: Request) -> tuple[str | None, str, list[int], float]:
    """What is to be kept or let go: a session's name, or the token ids of a conversation; the tenant; how long."""
    service: Service = http.app.state.service
    value = await read_json(http, service.config.max_body_bytes)
    caller = caller_of(http)
    if "messages" not in value and "session" in value:
        named = validate(SessionRequest, value)
        return named.session, caller.tenant, [], named.seconds
    body = validate(RetainRequest, value)
    service.check_model(body.model)
    ids = await to_thread.run_sync(service.preparer.history, body, caller)
    return None, caller.tenant, ids, body.seconds
