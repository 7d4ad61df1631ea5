"""A server as a child process: its pipes as MCP streams, and its end.

The library's own transport is not used because it tells neither the exit status nor the death of a program whose
pipes a child of its own still holds, leaves such children behind, and takes lines of any length.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from agents.servers.config import Stdio
from agents.servers.life import Life

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

INHERITED = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
"""What a server gets of our environment. All else may be a secret and must be named in its `env`."""
LONGEST_LINE = 32 * 2**20
GRACE = 2.0
"""Seconds that a server has to end by itself when its input is closed, and again after SIGTERM."""
LOOK = 0.05
"""Seconds between two looks at whether a program has ended."""
_KEPT = 4096

_GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)


@asynccontextmanager
async def stdio(way: Stdio, root: Path, life: Life) -> AsyncIterator[TransportStreams]:
    """Raises OSError where the program cannot be started. Enter and leave in one task."""
    from mcp.shared.message import SessionMessage

    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    process = await anyio.open_process(
        [way.command, *way.args], env={**inherited, **way.env}, cwd=way.cwd or root, start_new_session=True
    )
    to_client, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    child = _Child(process, life)
    async with anyio.create_task_group() as group:
        group.start_soon(child.attend, to_client, from_client)
        try:
            yield inbox, outbox
        finally:
            with anyio.CancelScope(shield=True):
                await child.stop()
                for stream in (inbox, outbox, to_client, from_client):
                    await stream.aclose()


class _Child:
    def __init__(self, process: Process, life: Life) -> None:
        self._process, self._life = process, life
        self._exited = anyio.Event()
        self._spoke = self._stopping = False
        # A server that is stuck writing does not see that its input is closed: it is read to its end.
        self._scope = anyio.CancelScope(shield=True)

    async def attend(self, to_client: MemoryObjectSendStream[Any], from_client: MemoryObjectReceiveStream[Any]) -> None:
        with self._scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read, to_client)
                group.start_soon(self._write, from_client)
                group.start_soon(self._listen)
                group.start_soon(self._watch)

    async def _read(self, to_client: MemoryObjectSendStream[Any]) -> None:
        assert self._process.stdout
        lines = BufferedByteReceiveStream(self._process.stdout)
        why = "it closed its output"
        async with to_client:
            try:
                while True:
                    if message := _message(await lines.receive_until(b"\n", LONGEST_LINE)):
                        self._spoke = True
                        await to_client.send(message)
            except anyio.DelimiterNotFound:
                why = f"it wrote a line of more than {LONGEST_LINE // 2**20} MiB"
            except (anyio.IncompleteRead, *_GONE):
                # A dying program closes its output just before its status is known.
                await self._ends_within(2 * LOOK)
            self._end(why)
        with suppress(*_GONE):
            while True:
                await self._process.stdout.receive()

    async def _write(self, from_client: MemoryObjectReceiveStream[SessionMessage]) -> None:
        assert self._process.stdin
        with suppress(*_GONE):  # the reader sees the end, too, and knows more about it
            async for item in from_client:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._process.stdin.send(line.encode() + b"\n")

    async def _listen(self) -> None:
        assert self._process.stderr
        life = self._life
        with suppress(*_GONE):
            while True:
                life.said = (life.said + (await self._process.stderr.receive()).decode(errors="replace"))[-_KEPT:]

    async def _watch(self) -> None:
        """`Process.wait` would also wait for the pipes, which a child of the program may hold open."""
        while self._process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(LOOK)
        status = self._process.returncode
        self._end(f"it ended with status {status}" if status >= 0 else f"it was killed by signal {-status}")
        self._exited.set()

    def _end(self, why: str) -> None:
        self._life.quit |= not self._stopping
        self._life.end(why)

    async def stop(self) -> None:
        assert self._process.stdin
        self._stopping = True
        with suppress(*_GONE):
            await self._process.stdin.aclose()
        if not await self._ends_within(GRACE if self._spoke else LOOK):
            self._signal(signal.SIGTERM)
            await self._ends_within(GRACE)
        self._signal(signal.SIGKILL)  # also what the program left behind
        await self._ends_within(GRACE)
        self._scope.cancel()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _ends_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._exited.wait()
        return self._exited.is_set()


def _message(line: bytes) -> SessionMessage | None:
    """None for what is no message: many programs print a greeting. An answer that cannot be read is an error answer,
    or its caller would wait in vain.
    """
    from mcp import types
    from mcp.shared.message import SessionMessage

    text = line.decode(errors="replace")
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError:
        pass
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or "method" in found or not isinstance(found.get("id"), int | str):
        return None
    error = types.ErrorData(code=types.PARSE_ERROR, message="the server's answer cannot be read")
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=found["id"], error=error))
