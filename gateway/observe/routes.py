"""The endpoints that tell about the gateway and its replicas; none of them touches an upstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.affinity.bindings import Bindings
from gateway.errors import GatewayError, no_replica
from gateway.observe.metrics import CONTENT_TYPE, Metrics
from gateway.placement.replica import Duty, Replica, ReplicaState
from gateway.routing.pools import Pools
from gateway.routing.view import describe_pool


class Observer:
    def __init__(self, pools: Pools, bindings: Bindings, metrics: Metrics) -> None:
        self._pools = pools
        self._bindings = bindings
        self._metrics = metrics

    def routes(self) -> list[Route]:
        handlers: dict[str, Callable[[Request], Any]] = {
            "/health": self.health,
            "/ready": self.ready,
            "/info": self.info,
            "/metrics": self.metrics,
            "/v1/models": self.models,
            "/v1/models/{model:path}": self.model,
        }
        return [Route(path, handler, methods=["GET"]) for path, handler in handlers.items()]

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        """Ready as soon as one replica is that may take new conversations."""
        if not any(replica.duty is Duty.SERVING for replica in self._healthy()):
            raise no_replica("none is healthy yet, or all are draining")
        return JSONResponse({"status": "ready"})

    async def info(self, _: Request) -> Response:
        return JSONResponse(
            {
                "name": "sapwood gateway",
                "version": _version(),
                "bindings": self._bindings.mode.value,
                "pools": [describe_pool(pool) for pool in self._pools],
                "replicas": [_describe(replica) for replica in self._pools.replicas],
            }
        )

    async def metrics(self, _: Request) -> Response:
        text = self._metrics.render(self._pools.replicas, self._bindings.mode)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    async def models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": list(self._merged().values())})

    async def model(self, request: Request) -> Response:
        name = request.path_params["model"]
        entry = self._merged().get(name)
        if entry is None:
            message = f"No healthy replica serves a model named {name!r}."
            raise GatewayError(message, code="model_not_found", status=404)
        return JSONResponse(entry)

    def _merged(self) -> dict[str, Mapping[str, Any]]:
        """Model entries of all healthy replicas; of one that several list, the first entry."""
        healthy = self._healthy()
        if not healthy:
            raise no_replica("none is healthy")
        merged: dict[str, Mapping[str, Any]] = {}
        for replica in healthy:
            for name, entry in replica.models.items():
                merged.setdefault(name, entry)
        return merged

    def _healthy(self) -> list[Replica]:
        return [replica for replica in self._pools.replicas if replica.state is ReplicaState.HEALTHY]


def _describe(replica: Replica) -> dict[str, Any]:
    return {
        "url": replica.url,
        "state": replica.state.value,
        "duty": replica.duty.value,
        "breaker": replica.breaker.state.value,
        "detail": replica.detail,
        "epoch": replica.epoch,
        "models": sorted(replica.models),
        "in_flight": replica.load.in_flight,
        "waiting_tokens": replica.load.work.tokens,
    }


def _version() -> str:
    try:
        return version("sapwood")
    except PackageNotFoundError:
        return "unknown"
