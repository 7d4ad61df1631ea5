"""A real engine with the real model, once for all tests of the server, and an HTTP client for it."""

from __future__ import annotations

import threading

import httpx
import pytest
import uvicorn

from engine.config import EngineConfig
from engine.server.app import create_app
from engine.server.load import load_service
from engine.server.run import _listen


@pytest.fixture(scope="session")
def service(smollm2_path):
    config = EngineConfig(
        model=str(smollm2_path),
        served_name="smollm2",
        dtype="float32",
        quant="none",
        kv_tokens=20_000,
        check_every_step=True,
    )
    return load_service(config)


@pytest.fixture(scope="session")
def base_url(service):
    listener = _listen("127.0.0.1", 0)
    started = threading.Event()
    config = uvicorn.Config(create_app(service), log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    startup = server.startup

    async def noted(sockets=None):
        await startup(sockets)
        started.set()

    server.startup = noted
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    assert started.wait(30)
    yield "http://{}:{}".format(*listener.getsockname())
    server.should_exit = True
    thread.join(10)
    listener.close()


@pytest.fixture
def http(base_url):
    with httpx.Client(base_url=base_url, timeout=60) as client:
        yield client
