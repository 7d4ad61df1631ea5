"""Running the gateway in the foreground: the socket, the ready line, the signals, the exit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn

from gateway.app import create_app
from gateway.config import GatewayConfig
from gateway.errors import StartError

BACKLOG = 2048


def serve(config: GatewayConfig, log_level: str = "warning") -> None:
    """Until SIGTERM or SIGINT. StartError if it can't listen."""
    logging.basicConfig(stream=sys.stderr, level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each probe, otherwise
    with listen(config.host, config.port) as listener:
        host, port = listener.getsockname()[:2]
        server = _Server(
            uvicorn.Config(
                create_app(config),
                log_config=None,
                log_level=log_level,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=config.drain_s,
            ),
            ready=f"sapwood gateway ready at http://{_in_url(host)}:{port}",
        )
        server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, before anything else is started: a taken port is found out at once."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise StartError(f"can't listen on {host}:{port}: {error.strerror or error}") from None
    return listener


class _Server(uvicorn.Server):
    """Says when it is ready, and takes a signal as the end of its work, not as a reason to die by it."""

    def __init__(self, config: uvicorn.Config, ready: str) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._ready, flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
