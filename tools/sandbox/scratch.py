"""Temporary folders that go with the process they belong to, also when it is killed.

The owner holds a lock on its folder, which the kernel lets go of when the owner ends. Whoever makes the next
folder of the same kind removes those that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path


class Scratch:
    """A new folder `sapwood-KIND-…` in the temporary folder."""

    def __init__(self, kind: str) -> None:
        prefix = f"sapwood-{kind}-"
        for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            _remove_if_left(folder)
        self.path, self._lock = _make(prefix)

    def close(self) -> None:
        """Remove the folder. Idempotent."""
        if self._lock >= 0:
            remove(self.path)
            os.close(self._lock)
            self._lock = -1


def remove(folder: Path) -> None:
    """A whole tree, also what a command made read-only; links are removed, never followed."""
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _make(prefix: str) -> tuple[Path, int]:
    while True:
        path = Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix)))
        with contextlib.suppress(FileNotFoundError):  # somebody took it for one left over, before the lock
            lock = _open(path)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return path, lock
            os.close(lock)


def _remove_if_left(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it is in use, or not ours
        lock = _open(folder)
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
        finally:
            os.close(lock)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
