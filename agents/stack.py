"""A stack of processes that start together and end together: Redis, engines, gateway.

Each child is an ordinary `sapwood` command that prints one line, `sapwood NAME ready at URL`, when it serves. It
runs in a process group of its own, and whatever way this process ends, the children are ended too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

SAPWOOD = (sys.executable, "-P", "-c", "from agents.cli import main; main()")
"""The command in this interpreter. -P: a folder `agents` where it is started must not be imported as ours."""
READY = re.compile(r"^sapwood \S+ ready at (\S+)")
START_SECONDS = 120.0
STOP_SECONDS = 5.0
LAST_WORDS = 20


class StackError(Exception):
    """A child that didn't start or ended by itself: its name and its last words."""


@dataclass
class Child:
    """One process. `url` is set once it is ready."""

    name: str
    process: subprocess.Popen[str]
    url: str = ""
    said: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))
    _ready: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)

    def listen(self) -> None:
        """Read the child's output to its end, so that its pipe never fills."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            found = READY.match(line)
            if found:
                self._ready.put(found.group(1))
        self._ready.put(None)

    def wait_ready(self, deadline: float) -> None:
        """Raises StackError when the child ends first or takes too long."""
        try:
            url = self._ready.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise StackError(f"{self.name} isn't ready after {START_SECONDS:.0f} s") from None
        if url is None:
            raise StackError(self.obituary())
        self.url = url

    def obituary(self) -> str:
        words = [line for line in self.said if not READY.match(line)]
        return f"{self.name} ended with status {self.process.wait()}: {' / '.join(words[-3:]) or 'no message'}"


class Stack:
    """A context manager: on leaving, every child is ended, the newest first."""

    def __init__(self) -> None:
        self.children: list[Child] = []

    def start(self, name: str, *command: str, env: dict[str, str] | None = None) -> Child:
        """Start `sapwood COMMAND…` without waiting for it."""
        process = subprocess.Popen(
            [*SAPWOOD, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(env or {}), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
        child = Child(name, process)
        self.children.append(child)
        threading.Thread(target=child.listen, daemon=True).start()
        return child

    def wait_ready(self, children: Sequence[Child]) -> None:
        deadline = time.monotonic() + START_SECONDS
        for child in children:
            child.wait_ready(deadline)

    def watch(self) -> Child:
        """Block until one of the children ends, and return it."""
        while True:
            for child in self.children:
                if child.process.poll() is not None:
                    return child
            time.sleep(0.2)

    def stop(self) -> None:
        for child in reversed(self.children):
            _signal(child, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for child in reversed(self.children):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))
            _signal(child, signal.SIGKILL)
            child.process.wait()

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _signal(child: Child, number: signal.Signals) -> None:
    """To the whole group of the child: what it started ends with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.process.pid, number)


def _die_with_parent() -> Callable[[], None] | None:
    """On Linux the kernel ends a child whose parent has died, however that came."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    pr_set_pdeathsig = 1

    def bind() -> None:
        libc.prctl(pr_set_pdeathsig, signal.SIGTERM)

    return bind
