"""How much one tool call may take."""

from __future__ import annotations

from dataclasses import dataclass

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Limits:
    """Bounds of a sandbox. The system counts memory and file size per process, processes per user."""

    seconds: float = 60.0
    """Wall time of a command that names none."""
    max_seconds: float = 600.0
    """The most that a model may ask for."""
    memory_bytes: int = 4 * _GIB
    """Private writable memory (RLIMIT_DATA), so that runtimes which only reserve addresses still start."""
    output_bytes: int = 12 * _KIB
    """What is kept of a command's output, half from its start and half from its end."""
    kept_bytes: int = 4 * _MIB
    """What is kept in a file of an output that is longer than that."""
    file_bytes: int = 256 * _MIB
    """The largest file that a command may write."""
    processes: int = 512
    read_bytes: int = 4 * _MIB
    """The largest file that a tool reads or writes as text."""
    text_chars: int = 12_000
    """The longest result of any other tool."""
