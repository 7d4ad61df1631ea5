"""A real gateway in front of the scripted upstream, on a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from prometheus_client.parser import text_string_to_metric_families

from gateway.app import create_app, refusal
from gateway.config import GatewayConfig
from gateway.guard.http import guarded_http
from gateway.serve import listen


class Front:
    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"

    def count(self, name: str, **labels: str) -> float:
        """The sum of a counter's samples that carry the labels; it must be one that there is."""
        text = httpx.get(f"{self.root}/metrics", trust_env=False).text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        family = families[f"sapwood_gateway_{name}"]
        return sum(
            sample.value
            for sample in family.samples
            if not sample.name.endswith("_created") and labels.items() <= sample.labels.items()
        )


@contextmanager
def gateway_before(upstream_url: str) -> Iterator[Front]:
    """Listens, with connections waiting, from the start; no Redis, no keys."""
    config = GatewayConfig(upstreams=(upstream_url.removesuffix("/v1"),))
    listener = listen("127.0.0.1", 0)
    settings = {"log_config": None, "access_log": False, "timeout_graceful_shutdown": 1}
    http = guarded_http(config.client_timeout_s, refusal)
    server = uvicorn.Server(uvicorn.Config(create_app(config), http=http, server_header=False, **settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield Front(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
