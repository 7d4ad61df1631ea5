"""The engine as a process: listen, load, say that it is ready, serve until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator

import uvicorn

from engine.config import EngineConfig
from engine.errors import StartError
from engine.weights.source import home_folder, resolve

SHUTDOWN_SECONDS = 2


def serve(config: EngineConfig) -> None:
    """Blocks. Prints one line on stdout once requests are answered; StartError where that can't come."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    with _listen(config.host, config.port) as listener:
        resolve(config.model, home_folder())  # torch takes seconds to import: a mistyped name is known before
        from engine.server.app import create_app
        from engine.server.load import load_service

        app = create_app(load_service(config))
        host, port = listener.getsockname()[:2]
        server = _Server(
            uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS),
            f"sapwood engine ready at http://{host}:{port}",
        )
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it is ready, and takes a signal as the end of its work, not as a reason to die by it."""

    def __init__(self, config: uvicorn.Config, greeting: str) -> None:
        super().__init__(config)
        self._greeting = greeting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._greeting, flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def _listen(host: str, port: int) -> socket.socket:
    """Bound before the model is read, so that a taken port is known at once; nobody is let in before it is."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        return listener
    except OSError as error:
        listener.close()
        raise StartError(f"can't listen on {host}:{port}: {error.strerror}; choose another --port") from None
