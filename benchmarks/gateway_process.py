"""What a gateway's processes take: CPU time and memory, as Linux counts them."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
PID, SESSION, RESIDENT = 0, 5, 23
"""Places in /proc/PID/stat, counted from 0 (proc(5))."""


def cpu_seconds(session: int) -> float:
    """Of all processes of a session, user and system, to the nanosecond."""
    return sum(time.clock_gettime(_clock(int(each[PID]))) for each in _processes(session))


def resident_mb(session: int) -> float:
    return sum(int(each[RESIDENT]) for each in _processes(session)) * PAGE / 1e6


def _clock(pid: int) -> int:
    """A process's CPU clock (clock_getcpuclockid(3))."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)) != 0:
        raise OSError(f"process {pid} has no CPU clock")
    return clock.value


def _processes(session: int) -> Iterator[list[str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it may have ended
                # The name, in parentheses, may hold spaces.
                name, _, rest = (folder / "stat").read_text().rpartition(")")
                fields = [folder.name, name, *rest.split()]
                if int(fields[SESSION]) == session:
                    yield fields
