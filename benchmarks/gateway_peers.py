"""The gateways that are measured beside each other, each in an environment and a process of its own, on one core."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents.stack import SAPWOOD
from benchmarks.gateway_upstream import MODEL
from benchmarks.peers.base import Packages, free_port, make_environment, running
from gateway.affinity.embedded import embedded_redis

SGLANG_ROUTER = Packages(("sglang-router==0.3.2",))
VLLM_ROUTER = Packages(("vllm-router==0.1.17",))
LITELLM = Packages(("litellm[proxy]==1.108.7",))
LITELLM_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
GATEWAY_CORE = 0
LOAD_CORE = 1


@dataclass(frozen=True)
class Proxy:
    name: str
    url: str
    pid: int
    """Its session: all processes of it are the gateway's."""


class GatewayPeer(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def packages(self) -> Packages | None: ...

    def command(self, env: Path, port: int, upstreams: Sequence[str], redis: str) -> list[str]: ...

    @property
    def ready(self) -> str:
        """The path that answers once requests would be served."""
        ...


@dataclass(frozen=True)
class Sapwood:
    name: str = "sapwood"
    shared: bool = True
    """With Redis, as `sapwood up` has it and as several gateways need it."""
    packages: Packages | None = None
    ready: str = "/ready"

    def command(self, env: Path, port: int, upstreams: Sequence[str], redis: str) -> list[str]:
        given = [word for url in upstreams for word in ("--upstream", url)]
        return [*SAPWOOD, "gateway", "--port", str(port), *given, *(["--redis", redis] if self.shared else [])]


@dataclass(frozen=True)
class SglangRouter:
    name: str = "sglang-router"
    packages: Packages | None = SGLANG_ROUTER
    ready: str = "/readiness"

    def command(self, env: Path, port: int, upstreams: Sequence[str], redis: str) -> list[str]:
        command = [str(env / "bin" / "sglang-router"), "launch", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--prometheus-port", str(free_port()), "--log-level", "warn", "--policy", "cache_aware"]
        return [*command, "--worker-urls", *upstreams]


@dataclass(frozen=True)
class VllmRouter:
    name: str = "vllm-router"
    packages: Packages | None = VLLM_ROUTER
    ready: str = "/readiness"

    def command(self, env: Path, port: int, upstreams: Sequence[str], redis: str) -> list[str]:
        command = [str(env / "bin" / "vllm-router"), "--host", "127.0.0.1", "--port", str(port)]
        command += ["--prometheus-port", str(free_port()), "--log-level", "warning", "--policy", "consistent_hash"]
        return [*command, "--worker-urls", *upstreams]


@dataclass(frozen=True)
class LiteLlm:
    name: str = "litellm"
    packages: Packages | None = LITELLM
    ready: str = "/health/readiness"

    def command(self, env: Path, port: int, upstreams: Sequence[str], redis: str) -> list[str]:
        served = [
            {
                "model_name": MODEL,
                "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "none"},
            }
            for url in upstreams
        ]
        config = env / "config.yaml"
        config.write_text(json.dumps({"model_list": served}))
        command = [str(env / "bin" / "litellm"), "--host", "127.0.0.1", "--port", str(port)]
        return [*command, "--config", str(config), "--telemetry", "False"]


PEERS: Sequence[GatewayPeer] = (
    Sapwood(),
    Sapwood("sapwood without Redis", shared=False),
    SglangRouter(),
    VllmRouter(),
    LiteLlm(),
)


def install(peer: GatewayPeer, folder: Path) -> None:
    """PeerError where that can't be."""
    if peer.packages is not None:
        make_environment(folder / peer.name, peer.packages)


@contextmanager
def behind(peer: GatewayPeer, folder: Path, upstreams: Sequence[str]) -> Iterator[Proxy]:
    """The gateway before these upstreams, ready."""
    port, env = free_port(), folder / peer.name.replace(" ", "-")
    with ExitStack() as stack:
        redis = stack.enter_context(embedded_redis())
        command = on_core(GATEWAY_CORE, peer.command(env, port, upstreams, redis))
        url = f"http://127.0.0.1:{port}"
        server = stack.enter_context(running(command, url + peer.ready, env / "gateway.log", LITELLM_SETTINGS))
        yield Proxy(peer.name, url, server.pid)


def on_core(core: int, command: Sequence[str]) -> list[str]:
    """The command, held to one core where the system can do that."""
    taskset = shutil.which("taskset")
    return [taskset, "-c", str(core), *command] if taskset else list(command)
