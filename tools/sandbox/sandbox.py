"""A sandbox: the jail for paths, and commands under limits in a clean environment."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tools.errors import ToolFault
from tools.sandbox.capture import HeadTail
from tools.sandbox.completed import Completed
from tools.sandbox.isolation import Isolation, best_isolation, bubblewrap, launcher
from tools.sandbox.jail import Jail
from tools.sandbox.limits import Limits
from tools.sandbox.outputs import Outputs
from tools.sandbox.process import Hear, run_launcher
from tools.sandbox.scratch import Scratch

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_MAX_COMMAND = 100_000  # the kernel refuses a single argument above 128 KiB
_SERVICE_SOCKETS = "/run"


class Sandbox:
    """Everything a model does to `root` goes through one of these.

    `allow_net` leaves the network open. `keep_env` names variables of ours that commands may see; by default
    they get PATH, LANG, TERM and a temporary HOME, so that no secret of ours reaches them. `python` is the
    interpreter for tests and checks, for a root without the virtual environment that it needs, such as a worktree.
    """

    def __init__(
        self,
        root: Path,
        limits: Limits | None = None,
        *,
        allow_net: bool = False,
        keep_env: Collection[str] = (),
        python: str | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.allow_net = allow_net
        self.python = python
        self.jail = Jail(root)
        self.root = self.jail.root
        self._keep_env = tuple(keep_env)
        self._home = Scratch("tools")
        self.home = self._home.path
        (self.home / "tmp").mkdir()
        self._outputs = Outputs(self.home)
        self.changing = threading.Lock()
        """Held by whoever reads a file, changes it and writes it back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary home. Idempotent."""
        self._home.close()

    @property
    def isolation(self) -> Isolation:
        return best_isolation()

    @property
    def network(self) -> Literal["blocked", "open"]:
        return "blocked" if self.isolation.blocks and not self.allow_net else "open"

    def describe(self) -> list[str]:
        """What holds and what doesn't, one plain line each, for a person."""
        return [
            f"root: {self.root}",
            f"isolation: {self.isolation.value}",
            self._describe_network(),
            self._describe_files(),
            f"limits: {self.limits.seconds:g} s, {self.limits.memory_bytes >> 20} MiB of memory per process, "
            f"files up to {self.limits.file_bytes >> 20} MiB",
        ]

    def resolve(self, path: str) -> Path:
        """The real path inside the root for a path from a model. PathFault if there is none."""
        return self.jail.resolve(path)

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        output_bytes: int | None = None,
        keep: bool = False,
        hear: Hear | None = None,
    ) -> Completed:
        """Run an argument list, or a shell command line, in the root.

        The command and everything it started is gone when this returns, also on time-out and cancellation.
        `timeout` is in seconds. A program that does not exist is exit code 127. With `keep`, an output that is cut
        stays in a file; `hear` gets it in pieces as it comes.
        """
        argv = [shell(), "-c", command] if isinstance(command, str) else list(command)
        if not argv or any("\0" in part for part in argv):
            raise ToolFault("the command is empty or has a NUL character")
        try:
            size = sum(len(os.fsencode(part)) for part in argv)
        except UnicodeEncodeError:
            raise ToolFault("the command has characters that UTF-8 can't hold") from None
        if size > _MAX_COMMAND:
            raise ToolFault(f"the command is longer than {_MAX_COMMAND} bytes; write it to a file first")
        seconds = self.limits.seconds if timeout is None else timeout
        shown = HeadTail(output_bytes or self.limits.output_bytes)
        whole = HeadTail(self.limits.kept_bytes)
        ended = await run_launcher(
            launcher(json.dumps(self._spec(argv))),
            seconds=min(max(seconds, 0.0), self.limits.max_seconds),
            stdin=stdin,
            env=self._environment(env or {}),
            hear=_each([shown.feed, *([whole.feed] if keep else []), *([hear] if hear else [])]),
        )
        return Completed(
            **vars(ended),
            output=shown.text(),
            truncated=shown.omitted > 0,
            omitted_bytes=shown.omitted,
            head_lines=shown.head_lines if shown.omitted else 0,
            file=self._outputs.keep(whole.text()) if keep and shown.omitted else "",
        )

    def _spec(self, argv: list[str]) -> dict[str, Any]:
        """The launcher's `Spec` for this command."""
        block = self.network == "blocked"
        writable = [str(self.root), str(self.home)]
        hidden = self._hidden() if block else []
        spec: dict[str, Any] = {
            "argv": argv,
            "cwd": str(self.root),
            "caller": os.getpid(),
            "limits": self._rlimits(),
        }
        if self.isolation is Isolation.BUBBLEWRAP:
            spec |= {"argv": bubblewrap(writable, hidden, block_network=block) + argv, "drop_privileges": False}
        elif self.isolation is Isolation.NAMESPACES:
            spec |= {"namespaces": True, "block_network": block, "writable": writable, "hidden": hidden}
        return spec

    def _hidden(self) -> list[str]:
        """Folders with sockets of system services, which would be a way around a blocked network."""
        needed = (str(self.root), str(self.home), sys.prefix, sys.base_prefix)
        real = os.path.realpath(_SERVICE_SOCKETS)
        in_use = any(Path(os.path.realpath(path)).is_relative_to(real) for path in needed)
        return [] if in_use or not os.path.isdir(real) else [real]

    def _rlimits(self) -> dict[str, int]:
        limits = self.limits
        return {"DATA": limits.memory_bytes, "FSIZE": limits.file_bytes, "NPROC": limits.processes, "CORE": 0}

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in self._keep_env if name in os.environ}
        return {
            "PATH": os.environ.get("PATH") or _DEFAULT_PATH,
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "PYTHONDONTWRITEBYTECODE": "1",
            "GIT_TERMINAL_PROMPT": "0",
            **kept,
            **extra,
        }

    def _describe_network(self) -> str:
        if self.network == "blocked":
            return "network: blocked, loopback only"
        reason = "allowed" if self.allow_net else "bubblewrap is absent and user namespaces are not permitted here"
        return f"network: open ({reason})"

    def _describe_files(self) -> str:
        if self.isolation.blocks:
            return "files: commands write in the root and a temporary home only, and can read what you can"
        return "files: commands can read and write what you can; only the other tools are held to the root"


def shell() -> str:
    """The shell that reads command lines."""
    return shutil.which("bash") or "/bin/sh"


def _each(hearers: Sequence[Hear]) -> Hear:
    def hear(piece: bytes) -> None:
        for one in hearers:
            one(piece)

    return hear
