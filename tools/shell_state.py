"""A shell whose directory, variables and functions carry over from one command line to the next.

Each command line still runs in a shell process of its own, which begins with what the one before left and writes
down what it leaves. So everything that a command line started ends with it, and one that hangs, is killed or kills
its shell can't take the session along: the next begins where that one began.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from dataclasses import dataclass

from tools.errors import ToolFault
from tools.sandbox import Completed, Sandbox
from tools.sandbox.jail import Jail
from tools.sandbox.process import Hear
from tools.sandbox.sandbox import shell

_MAX_STATE = 1 << 20
_PLACE = b"\n# in "
_OWN = (
    "BASH*|COMP_WORDBREAKS|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OPTIND|PIPESTATUS|PPID|RANDOM|SAPWOOD_ROOT|SECONDS"
    "|SHELLOPTS|SRANDOM|UID|_|__v"
)
"""Variables that bash sets itself."""
_SAVE_BASH = (
    f'declare -f; compgen -v | while IFS= read -r __v; do case $__v in ({_OWN}) ;; (*) declare -p "$__v" ;; esac; done'
)
_SAVE_POSIX = "export -p"


@dataclass(frozen=True)
class Ran:
    """A command line's end, and where the next one begins."""

    done: Completed
    folder: str
    """Relative to the root where it lies inside."""
    kept: bool
    """Whether the command line's own changes to the shell carry over."""


class Shell:
    """Calls at the same time all begin with what was left last; the one that ends last leaves its own."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._home = Jail(sandbox.home)
        self._folder = str(sandbox.root)
        self._state = b""

    async def run(self, command: str, seconds: float, hear: Hear) -> Ran:
        self._find_folder()
        token = f"shell-{secrets.token_hex(8)}"
        before, after = f"{token}.before", f"{token}.after"
        try:
            self._home.write(before, self._state)
            argv = [shell(), "-c", self._script(before, after), os.path.basename(shell()), command]
            done = await self._sandbox.run(argv, timeout=seconds, keep=True, hear=hear)
            kept = not done.timed_out and self._adopt(after)
        finally:
            for name in (before, after):
                with contextlib.suppress(ToolFault):
                    self._home.remove(name)
        return Ran(done, self._shown(), kept)

    def _find_folder(self) -> None:
        if not os.path.isdir(self._folder):
            self._folder = str(self._sandbox.root)

    def _script(self, before: str, after: str) -> str:
        """One line, so that the shell's complaints count the lines of the command, which is its only argument."""
        home = self._sandbox.home
        save = _SAVE_BASH if os.path.basename(shell()) == "bash" else _SAVE_POSIX
        place = r"""printf '\n# in %s\n' "$PWD" """
        leave = f"{{ {save}; {place}; }} > {shlex.quote(str(home / after))} 2>/dev/null"
        return "; ".join(
            (
                f". {shlex.quote(str(home / before))} 2>/dev/null",
                f"SAPWOOD_ROOT={shlex.quote(str(self._sandbox.root))}",
                f"command cd -- {shlex.quote(self._folder)} || exit",
                f"trap {shlex.quote(leave)} EXIT",
                'eval "set --; $1"',
            )
        )

    def _adopt(self, name: str) -> bool:
        """Take over what a command line left, if it is whole."""
        try:
            raw = self._home.read(name, _MAX_STATE)
        except ToolFault:
            return False
        state, mark, place = raw.rpartition(_PLACE)
        folder = os.fsdecode(place.removesuffix(b"\n"))
        if not (mark and place.endswith(b"\n") and os.path.isabs(folder)):
            return False
        self._state, self._folder = state + b"\n", folder
        return True

    def _shown(self) -> str:
        inside = os.path.relpath(self._folder, self._sandbox.root)
        return self._folder if inside == ".." or inside.startswith("../") else inside
