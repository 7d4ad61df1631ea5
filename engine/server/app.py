"""The engine's HTTP application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from engine.errors import RequestError
from engine.server import cache_routes, routes
from engine.server.embeddings import embeddings
from engine.server.errors import crashed, http_error, hung_up, refused
from engine.server.openapi import openapi
from engine.server.service import Service
from engine.server.tokenize import detokenize, tokenize


def create_app(service: Service) -> Starlette:
    """Starts the engine thread with the application and stops it with it."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.dispatcher.start()
        try:
            yield
        finally:
            service.engine.stop()

    app = Starlette(
        routes=[
            Route("/v1/chat/completions", routes.chat_completions, methods=["POST"]),
            Route("/v1/completions", routes.completions, methods=["POST"]),
            Route("/v1/embeddings", embeddings, methods=["POST"]),
            Route("/v1/models", routes.models),
            Route("/tokenize", tokenize, methods=["POST"]),
            Route("/detokenize", detokenize, methods=["POST"]),
            Route("/openapi.json", openapi),
            Route("/info", cache_routes.info),
            Route("/cache", cache_routes.cache),
            Route("/cache/tree", cache_routes.cache_tree),
            Route("/cache/retain", cache_routes.retain, methods=["POST"]),
            Route("/cache/release", cache_routes.release, methods=["POST"]),
            Route("/cache/warm", cache_routes.warm, methods=["POST"]),
            Route("/health", cache_routes.health),
            Route("/ready", cache_routes.ready),
            Route("/metrics", cache_routes.metrics),
        ],
        exception_handlers={
            RequestError: refused,
            HTTPException: http_error,
            ClientDisconnect: hung_up,
            Exception: crashed,
        },
        lifespan=lifespan,
    )
    app.state.service = service
    return app
