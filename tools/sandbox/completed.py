"""What became of a command, and how to read on where its output was cut."""

from __future__ import annotations

from dataclasses import dataclass

_PAGE_LINES = 200
_PAGE_WIDTH = 200


@dataclass(frozen=True)
class Completed:
    exit_code: int
    """The command's status; 128 + N after signal N, as a shell says it. 137 after a time-out."""
    output: str
    """Standard output and error in the order they came; the middle is left out beyond the limit."""
    timed_out: bool
    truncated: bool
    omitted_bytes: int
    seconds: float
    head_lines: int = 0
    """How many whole lines of a cut output stand before the gap."""
    file: str = ""
    """Where more of a cut output is kept, as a command names it."""

    def middle_left_out(self) -> str:
        """What to say below an output that was cut."""
        how = f"run: {self._next_page()}" if self.file else "run it again through grep, head, tail or sed -n"
        return f"[the middle was left out; to read on, {how}]"

    def _next_page(self) -> str:
        """The command line that shows what comes after the gap."""
        if self.head_lines:
            first = self.head_lines + 1
            return f"sed -n '{first},{first + _PAGE_LINES - 1}p' {self.file}"
        first = self.output.find("[...") // _PAGE_WIDTH + 1
        return f"fold -w {_PAGE_WIDTH} {self.file} | sed -n '{first},{first + _PAGE_LINES // 4}p'"
