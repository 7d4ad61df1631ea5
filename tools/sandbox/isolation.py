"""How far commands can be kept apart on this host: tried once, then said plainly."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path

_PACKAGES = str(Path(__file__).resolve().parents[2])
_BOOT = f"import sys; sys.path.append({_PACKAGES!r}); from tools.launcher.supervise import main; main()"
_PROBE_SECONDS = 10
_EXEC = ("/bin/sh", "-c", 'exec "$@"', "sh")  # a missing program is 127, as everywhere


class Isolation(Enum):
    """What surrounds a command, strongest first."""

    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces"
    GROUP = "process group"

    @property
    def blocks(self) -> bool:
        """Whether the network can be cut off and files outside the root kept from being written."""
        return self is not Isolation.GROUP


def launcher(spec: str) -> list[str]:
    """The command line that runs the launcher with a JSON `spec`, deaf to the environment it gets."""
    return [sys.executable, "-I", "-S", "-c", _BOOT, spec]


@functools.cache
def best_isolation() -> Isolation:
    """The strongest isolation that works here. Takes a few dozen milliseconds once per process."""
    if _works(bubblewrap([], [], block_network=True)):
        return Isolation.BUBBLEWRAP
    return Isolation.NAMESPACES if namespaces_work() else Isolation.GROUP


def bubblewrap(writable: list[str], hidden: list[str], *, block_network: bool) -> list[str]:
    """The front of a command line that runs the rest under bubblewrap; empty where there is none."""
    program = shutil.which("bwrap")
    if program is None:
        return []
    shared = [] if block_network else ["--share-net"]
    mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    mounts += [part for folder in hidden for part in ("--tmpfs", folder)]
    mounts += [part for folder in writable for part in ("--bind", folder, folder)]
    return [program, "--unshare-all", *shared, "--die-with-parent", "--cap-drop", "ALL", *mounts, "--", *_EXEC]


def namespaces_work() -> bool:
    """Whether this host lets an ordinary process set up all of the launcher's namespaces."""
    spec = {
        "argv": ["true"],
        "cwd": "/",
        "caller": os.getpid(),
        "limits": {},
        "namespaces": True,
        "block_network": True,
        "writable": [],
        "hidden": [],
    }
    return sys.platform.startswith("linux") and _works(launcher(json.dumps(spec)), ())


def _works(front: list[str], command: tuple[str, ...] = ("true",)) -> bool:
    if not front:
        return False
    try:
        done = subprocess.run(
            [*front, *command], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
