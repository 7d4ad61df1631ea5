"""The root jail: every path from a model becomes a real path inside one folder, or a fault.

A path is resolved first, links included. It is then opened from the root's descriptor part by part without
following links, so that a link which is swapped in between the two steps is an error and not a way out.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from tools.errors import PathFault, path_fault

_MAX_PATH, _MAX_NAME = 4096, 255
_NEW_MODE = 0o644
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Jail:
    """One root folder. Methods take a path as a model wrote it, relative to the root or absolute inside it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise PathFault(f"the sandbox root {str(root)!r} is not a folder")

    def resolve(self, path: str) -> Path:
        """The real path of `path`, which need not exist. PathFault if it is malformed or outside the root."""
        _check_spelling(path)
        try:
            real = Path(os.path.realpath(self.root / path))
        except OSError as error:
            raise path_fault(error, path) from None
        if not real.is_relative_to(self.root):
            raise PathFault(f"{path!r} is outside the sandbox root; use a path relative to the root")
        return real

    def relative(self, path: str) -> str:
        """`path` as a clean path relative to the root, with `.` for the root itself."""
        return self.resolve(path).relative_to(self.root).as_posix()

    def read(self, path: str, limit: int) -> bytes:
        """A regular file's bytes. PathFault if there is none or it is larger than `limit`."""
        with self._faults(path):
            descriptor = self._open(self.resolve(path), _FILE)
            with open(descriptor, "rb") as file:
                self._check_regular(path, os.fstat(descriptor), limit)
                return file.read(limit + 1)[:limit]

    def mode(self, path: str) -> int:
        """A regular file's permission bits."""
        with self._faults(path):
            descriptor = self._open(self.resolve(path), _FILE)
            try:
                self._check_regular(path, status := os.fstat(descriptor))
            finally:
                os.close(descriptor)
        return stat.S_IMODE(status.st_mode)

    def write(self, path: str, data: bytes, mode: int | None = None) -> bool:
        """Replace or create a file in one step, with its parents. True if it is new. Without `mode` it keeps its
        own.
        """
        real = self.resolve(path)
        self._check_ours(path, real)
        with self._faults(path), self._folder(real.parent, create=True) as folder:
            kept = self._mode_to_keep(path, folder, real.name)
            usual = _NEW_MODE if kept is None else kept
            self._replace(folder, real.name, data, usual if mode is None else mode)
        return kept is None

    def remove(self, path: str) -> None:
        """Delete a regular file. PathFault for anything else, a link included."""
        _check_spelling(path)
        real = self.resolve(os.path.dirname(path) or ".") / os.path.basename(path)
        self._check_ours(path, real)
        with self._faults(path), self._folder(real.parent) as folder:
            self._check_regular(path, os.stat(real.name, dir_fd=folder, follow_symlinks=False))
            os.unlink(real.name, dir_fd=folder)

    @contextlib.contextmanager
    def open_folder(self, path: str) -> Iterator[int]:
        """A descriptor of a folder inside the root, for the time of the block."""
        with self._faults(path), self._folder(self.resolve(path)) as descriptor:
            yield descriptor

    def _check_ours(self, path: str, real: Path) -> None:
        if real == self.root:
            raise PathFault(f"{path!r} is the sandbox root, not a file")
        parts = {part.lower() for part in real.relative_to(self.root).parts}
        if ".git" in parts:
            raise PathFault(f"{path!r} is git's own data, which tools don't write; use git commands instead")
        if ".sapwood" in parts:
            raise PathFault(f"{path!r} is where Sapwood keeps its sessions; tools don't write there")

    def _open(self, real: Path, flags: int) -> int:
        with self._folder(real.parent if real != self.root else real) as folder:
            return os.open(real.name if real != self.root else ".", flags, dir_fd=folder)

    @contextlib.contextmanager
    def _folder(self, real: Path, *, create: bool = False) -> Iterator[int]:
        current = os.open(self.root, _FOLDER)
        try:
            for part in real.relative_to(self.root).parts:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=current)
                deeper = os.open(part, _FOLDER, dir_fd=current)
                os.close(current)
                current = deeper
            yield current
        finally:
            os.close(current)

    def _mode_to_keep(self, path: str, folder: int, name: str) -> int | None:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._check_regular(path, status)
        return stat.S_IMODE(status.st_mode)

    @staticmethod
    def _replace(folder: int, name: str, data: bytes, mode: int) -> None:
        temporary = f".sapwood-{secrets.token_hex(8)}"
        descriptor = os.open(temporary, _CREATE, mode, dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                file.write(data)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    @staticmethod
    def _check_regular(path: str, status: os.stat_result, limit: int | None = None) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise PathFault(f"{path!r} is a folder, not a file; list it with list_files")
        if not stat.S_ISREG(status.st_mode):
            raise PathFault(f"{path!r} is not a regular file")
        if limit is not None and status.st_size > limit:
            raise PathFault(
                f"{path!r} has {status.st_size} bytes, more than the {limit} that a tool reads; "
                f"read a part of it with run_command, such as: sed -n '1,200p' {shlex.quote(path)}"
            )

    @staticmethod
    @contextlib.contextmanager
    def _faults(path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise path_fault(error, path) from None


def _check_spelling(path: str) -> None:
    if not path:
        raise PathFault("the path is empty; use '.' for the root")
    if "\0" in path:
        raise PathFault(f"{path[:80]!r} has a NUL character")
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise PathFault(f"{path[:80]!r} can't be written as a file name") from None
    if len(raw) > _MAX_PATH or any(len(name) > _MAX_NAME for name in raw.split(b"/")):
        raise PathFault(f"{path[:80]!r}... is too long for a path")
