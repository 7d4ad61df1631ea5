"""Runs one launcher process to its end: bounded output, and nothing left over on time-out or cancellation."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

_GRACE_SECONDS = 5.0
_CHUNK = 1 << 16


Hear = Callable[[bytes], None]
"""Takes a piece of output as it comes."""


@dataclass(frozen=True)
class Ended:
    """How a command came to its end."""

    exit_code: int
    """The command's status; 128 + N after signal N, as a shell says it. 137 after a time-out."""
    timed_out: bool
    seconds: float


async def run_launcher(
    argv: list[str], *, seconds: float, stdin: bytes | None, env: Mapping[str, str], hear: Hear
) -> Ended:
    """Run `argv`, which must end all its descendants on SIGTERM. Cancelling this call does that too."""
    started = time.monotonic()
    process = await anyio.open_process(
        argv,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        start_new_session=True,
    )
    try:
        with anyio.move_on_after(seconds) as scope:
            await _talk(process, stdin, hear)
            await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, hear)
    return Ended(
        exit_code=process.returncode if process.returncode is not None else 128 + signal.SIGKILL,
        timed_out=scope.cancelled_caught,
        seconds=time.monotonic() - started,
    )


async def _talk(process: Process, stdin: bytes | None, hear: Hear) -> None:
    assert process.stdout is not None
    async with anyio.create_task_group() as tasks:
        if process.stdin is not None:
            tasks.start_soon(_feed, process.stdin, stdin or b"")
        await _drain(process.stdout, hear)


async def _feed(stream: ByteSendStream, data: bytes) -> None:
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await stream.send(data)
    with contextlib.suppress(OSError):
        await stream.aclose()


async def _drain(stream: ByteReceiveStream, hear: Hear) -> None:
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            hear(await stream.receive(_CHUNK))


async def _end(process: Process, hear: Hear) -> None:
    """Stop the launcher if it still runs, take what is left in the pipe, and free the process."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(_GRACE_SECONDS):
            await process.wait()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.stdout is not None:
        with anyio.move_on_after(_GRACE_SECONDS):
            await _drain(process.stdout, hear)
    await process.aclose()
