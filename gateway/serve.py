"""Running the gateway in the foreground: the socket, the ready line, the signals, the exit."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn

from gateway.app import Gateway, as_app, refusal
from gateway.config import GatewayConfig
from gateway.errors import StartError
from gateway.guard.http import guarded_http

log = logging.getLogger("sapwood.gateway")

BACKLOG = 2048
YOUNG_OBJECTS = 50_000
"""So many new ones before cycles among them are looked for: a request with a long history makes thousands, none in a
cycle."""


def serve(config: GatewayConfig, log_level: str, reload: Callable[[], GatewayConfig]) -> None:
    """Until SIGTERM or SIGINT. SIGHUP takes over what `reload` gives. StartError if it can't listen."""
    logging.basicConfig(stream=sys.stderr, level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each probe, otherwise
    with listen(config.host, config.port) as listener:
        gateway = Gateway(config)
        host, port = listener.getsockname()[:2]
        server = _Server(
            uvicorn.Config(
                as_app(gateway),
                log_config=None,
                log_level=log_level,
                access_log=False,
                http=guarded_http(config.client_timeout_s, refusal),
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=config.drain_s,
            ),
            hang_up=lambda: _reload(gateway, reload),
            ready=f"sapwood gateway ready at http://{_in_url(host)}:{port}",
        )
        server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, before anything else is started: a taken port is found out at once."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With the protocol named, asyncio sets TCP_NODELAY on what is accepted.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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


def _reload(gateway: Gateway, read: Callable[[], GatewayConfig]) -> None:
    """Whatever is wrong with the new configuration, the old one stays."""
    try:
        gateway.apply(read())
    except StartError as error:
        log.error("the configuration stays as it was: %s", error)


class _Server(uvicorn.Server):
    """Says when it is ready, and takes a signal as the end of its work, not as a reason to die by it."""

    def __init__(self, config: uvicorn.Config, *, ready: str, hang_up: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._hang_up = hang_up
        self._from_terminal = sys.stdin is not None and sys.stdin.isatty()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            gc.freeze()  # what a running gateway consists of is never looked at again
            gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
            print(self._ready, flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        yield

    def _hung_up(self) -> None:
        """An operator's wish to reload, unless it comes of a terminal that was closed."""
        if self._from_terminal and not sys.stdin.isatty():
            self.handle_exit(signal.SIGHUP, None)
        else:
            self._hang_up()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
