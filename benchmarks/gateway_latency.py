"""What the gateway adds to a request: the same trivial upstream, asked directly and through the gateway.

    python -m benchmarks.gateway_latency

Requests alternate between the two ways, one at a time on kept-alive connections, so that noise meets both alike.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from gateway.affinity.embedded import embedded_redis
from gateway.app import create_app
from gateway.config import GatewayConfig

ROUNDS = 400


async def _answer(request: Request) -> JSONResponse:
    await request.body()
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    message = {"role": "assistant", "content": "ok"}
    return JSONResponse(
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage, "model": "m"}
    )


async def _listed(_: Request) -> JSONResponse:
    return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model"}]})


async def _ok(_: Request) -> JSONResponse:
    return JSONResponse({"status": "ok", "epoch": "1"})


async def _serve(app: object) -> tuple[uvicorn.Server, asyncio.Task[None], str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))  # type: ignore[arg-type]
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 (uvicorn offers nothing to wait for)
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    return server, task, f"http://127.0.0.1:{port}"


def _body(kilobytes: int) -> bytes:
    turn = "x" * 1000
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": turn} for i in range(max(1, kilobytes))]
    return json.dumps({"model": "m", "messages": messages}).encode()


async def _compare(direct: str, through: str, body: bytes) -> tuple[float, float]:
    times: dict[str, list[float]] = {direct: [], through: []}
    async with httpx.AsyncClient() as http:
        for round_number in range(ROUNDS + 20):
            for url, found in times.items():
                began = time.perf_counter()
                reply = await http.post(f"{url}/v1/chat/completions", content=body)
                reply.raise_for_status()
                if round_number >= 20:
                    found.append(time.perf_counter() - began)
    return statistics.median(times[direct]), statistics.median(times[through])


async def _run(redis: str) -> None:
    routes = [
        Route("/v1/chat/completions", _answer, methods=["POST"]),
        Route("/v1/models", _listed),
        Route("/health", _ok),
        Route("/info", _ok),
    ]
    upstream, upstream_task, direct = await _serve(Starlette(routes=routes))
    gateway, gateway_task, through = await _serve(create_app(GatewayConfig(upstreams=(direct,), redis_url=redis)))
    for kilobytes in (1, 50):
        a, b = await _compare(direct, through, _body(kilobytes))
        both = f"direct {a * 1e3:.2f} ms, through the gateway {b * 1e3:.2f} ms"
        print(f"{kilobytes:3} kB: {both}, added {(b - a) * 1e3:.2f} ms")
    for server, task in ((gateway, gateway_task), (upstream, upstream_task)):
        server.should_exit = True
        await task


if __name__ == "__main__":
    with embedded_redis() as url:
        asyncio.run(_run(url))
