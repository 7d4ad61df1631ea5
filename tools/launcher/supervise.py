"""Starts one command under limits, waits for it, and leaves no process behind.

    caller ── launcher ── [init of a process namespace] ── command ── whatever it starts

With namespaces the kernel ends everything when the init ends. Without, the launcher adopts orphans and kills
its descendants until none is left. Either way one SIGTERM to the launcher, or the caller's death, ends them all.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

LINUX = sys.platform.startswith("linux")
_STOP = {signal.SIGTERM}
_SWEEP_SECONDS = 2.0
_NOT_FOUND, _NOT_EXECUTABLE, _NOT_ISOLATED = 127, 126, 125


@dataclass(frozen=True)
class Spec:
    """What to run and how, as the caller wrote it in one JSON argument."""

    argv: list[str]
    cwd: str
    caller: int
    limits: dict[str, int]
    """Soft and hard values by the name of the resource, without `RLIMIT_`."""
    namespaces: bool = False
    block_network: bool = False
    writable: list[str] | None = None
    """Folders that stay writable; None leaves the file system as it is."""
    hidden: list[str] | None = None
    drop_privileges: bool = True
    """False for a command that drops them itself once it has used them, as bubblewrap does."""


class _Stopped(Exception):
    """SIGTERM came."""


def main() -> None:
    spec = Spec(**json.loads(sys.argv[1]))
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)  # until there is a child that a stop can end
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if LINUX:
        from tools.launcher import isolate

        isolate.die_with_parent(signal.SIGTERM)
        if os.getppid() != spec.caller:
            sys.exit(_NOT_ISOLATED)
    os._exit(_in_namespaces(spec) if spec.namespaces else _in_group(spec))


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Stopped


def _in_namespaces(spec: Spec) -> int:
    from tools.launcher import isolate

    try:
        isolate.enter_namespaces(block_network=spec.block_network)
        if spec.writable is not None:
            isolate.seal_files(spec.writable, spec.hidden or [])
    except OSError as error:
        return _complain(f"the sandbox could not be set up: {error}", _NOT_ISOLATED)
    isolate.die_with_parent(signal.SIGTERM)  # changing credentials may have cleared it
    init = os.fork()
    if init == 0:
        _be_init(spec)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        return _exit_code(os.waitpid(init, 0)[1])
    except _Stopped:
        os.kill(init, signal.SIGKILL)
        return _exit_code(os.waitpid(init, 0)[1])  # returns once every process of the namespace is gone


def _be_init(spec: Spec) -> None:
    """Process 1 of the namespace: reap everything, end with the command."""
    from tools.launcher import isolate

    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ignored inside the namespace, as for every init
    isolate.die_with_parent(signal.SIGKILL)
    with contextlib.suppress(OSError):
        isolate.mount_own_proc()
    command = os.fork()
    if command == 0:
        _exec(spec)
    os._exit(_reap_until(command))


def _in_group(spec: Spec) -> int:
    if LINUX:
        from tools.launcher import isolate

        isolate.adopt_orphans()
    command = os.fork()
    if command == 0:
        _exec(spec)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        return _reap_until(command)
    except _Stopped:
        return 128 + signal.SIGKILL
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _sweep(command)


def _reap_until(command: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == command:
            return _exit_code(status)


def _sweep(command: int) -> None:
    """Kill every descendant, also those that left the command's group, until none is left."""
    deadline = time.monotonic() + _SWEEP_SECONDS
    with contextlib.suppress(OSError):
        os.killpg(command, signal.SIGKILL)
    while time.monotonic() < deadline:
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _descendants(ancestor: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc") if LINUX else ():
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", "rb") as stat:
                parent = int(stat.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry))
    pending = [ancestor]
    while pending:
        for child in children.get(pending.pop(), ()):
            pending.append(child)
            yield child


def _exec(spec: Spec) -> None:
    """Become the command: own session, limits, no privileges, the signals of a fresh process. Never returns."""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP)
        if LINUX:
            from tools.launcher import isolate

            isolate.die_with_parent(signal.SIGKILL)
            if spec.drop_privileges:
                isolate.give_up_privileges()
        os.chdir(spec.cwd)
        _apply_limits(spec.limits)
        os.execvp(spec.argv[0], spec.argv)
    except FileNotFoundError as error:
        os._exit(_complain(f"{error.filename or spec.argv[0]}: not found", _NOT_FOUND))
    except (OSError, ValueError) as error:
        os._exit(_complain(f"{spec.argv[0]}: {error}", _NOT_EXECUTABLE))


def _apply_limits(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None:
            hard = resource.getrlimit(number)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (bound, bound))


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _complain(message: str, code: int) -> int:
    os.write(2, f"sapwood: {message}\n".encode(errors="replace"))
    return code
