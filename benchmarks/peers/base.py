"""What a peer is, and what all of them need: an environment, a process, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

INSTALL_SECONDS = 3600
START_SECONDS = 400
STOP_SECONDS = 10
GONE_SECONDS = 1
POLL_SECONDS = 0.1
CONTEXT = 8192
KV_GIB = 4


class PeerError(Exception):
    """Why a peer can't be installed or started here, in one line."""


@dataclass(frozen=True)
class Setup:
    """What every peer is started with: the same file, the same number of clients, all cores."""

    model: Path
    clients: int
    threads: int


@dataclass(frozen=True)
class Endpoint:
    """A server that answers. `base_url` goes up to and including `/v1`."""

    base_url: str
    model: str
    ready_seconds: float


class Peer(Protocol):
    @property
    def name(self) -> str: ...

    def install(self, env: Path) -> None:
        """Make the environment in the folder `env`, or find it made. PeerError where that can't be."""
        ...

    def serve(self, env: Path, setup: Setup) -> AbstractContextManager[Endpoint]:
        """Start the server and wait until it answers; on leaving, every process of it is ended."""
        ...


@dataclass(frozen=True)
class Packages:
    """An environment's content: pinned requirements, what of their dependencies is left out, and build settings."""

    requirements: tuple[str, ...]
    without: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()


def make_environment(env: Path, packages: Packages) -> None:
    """A virtual environment with these packages; at once where a former call has made the same."""
    stamp = env / ".installed"
    if stamp.is_file() and stamp.read_text() == repr(packages):
        return
    stamp.unlink(missing_ok=True)
    env.mkdir(parents=True, exist_ok=True)
    pip = [str(env / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    log = env.with_suffix(".install.log")
    with log.open("w") as out:
        run = partial(_run, out=out.fileno(), log=log, settings=dict(packages.settings))
        run([sys.executable, "-m", "venv", "--clear", str(env)])
        run([*pip, "install", *packages.requirements])
        if packages.without:
            run([*pip, "uninstall", "--yes", *packages.without])
    stamp.write_text(repr(packages))


def _run(command: Sequence[str], out: int, log: Path, settings: Mapping[str, str] | None) -> None:
    """As a process group, so that a time limit ends the compilers that pip has started too."""
    with _process(command, out, settings) as process:
        try:
            status = process.wait(INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            raise PeerError(f"not installed after {INSTALL_SECONDS} s; see {log}") from None
    if status != 0:
        raise PeerError(f"can't be installed: {last_words(log)}; see {log}")


@contextmanager
def serving(
    command: Sequence[str], port: int, log: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Endpoint]:
    """Run a server that answers `GET /health` and `GET /v1/models` once it is ready."""
    root = f"http://127.0.0.1:{port}"
    with running(command, f"{root}/health", log, settings) as server:
        yield Endpoint(f"{root}/v1", _served_model(f"{root}/v1/models"), server.ready_seconds)


@dataclass(frozen=True)
class Running:
    pid: int
    """Its own process group and session."""
    ready_seconds: float


@contextmanager
def running(
    command: Sequence[str], ready: str, log: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a server that answers `GET` on the URL `ready` with 200 once it is.

    Where it ends by itself before the measurement does, that is the error, and not what the client saw of it.
    """
    began = time.perf_counter()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out, _process(command, out.fileno(), settings) as process:
        while not _healthy(ready):
            if process.poll() is not None:
                raise _ended(process, log)
            if time.perf_counter() - began > START_SECONDS:
                raise PeerError(f"not ready after {START_SECONDS} s; see {log}")
            time.sleep(POLL_SECONDS)
        try:
            yield Running(process.pid, time.perf_counter() - began)
        except Exception:
            # Its connections close a moment before the process is gone.
            with suppress(subprocess.TimeoutExpired):
                process.wait(GONE_SECONDS)
                raise _ended(process, log) from None
            raise


def _ended(process: subprocess.Popen[bytes], log: Path) -> PeerError:
    return PeerError(f"ended with status {process.returncode}: {last_words(log)}; see {log}")


@contextmanager
def _process(command: Sequence[str], out: int, settings: Mapping[str, str] | None) -> Iterator[subprocess.Popen[bytes]]:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(settings or {}), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    except OSError as error:
        raise PeerError(f"{command[0]}: {error.strerror}") from None
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole group: a server's workers end with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def last_words(log: Path) -> str:
    """The last line that says what went wrong, or the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[-1][:200]


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _served_model(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:
            return str(json.load(reply)["data"][0]["id"])
    except (OSError, ValueError, LookupError) as error:
        raise PeerError(f"{url} names no model: {error}") from None
