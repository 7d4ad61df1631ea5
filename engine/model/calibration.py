"""Which of two kernels is faster for how many rows: measured once a machine, kept in the cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

Kernel = Callable[[Tensor], Tensor]

ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
TRIES = 5
ENOUGH_SECONDS = 0.1
"""Work that takes this long is not repeated further: it is not the noise of a moment that decides."""
LOSSES = 2
"""So many sizes lost in a row end the search; one may be another process that disturbed."""
GAIN = 1.1
"""How much faster the kernel for few rows must be: a tie isn't worth its rounding."""


class Calibration:
    """Remembers each answer under the machine and a name. Without a path nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.most = ROWS[-1]
        self._machine = f"{processor()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
        self._known: dict[str, dict[str, int]] = _read(path)
        self._changed = False

    def rows(self, name: str, few: Kernel, many: Kernel, example: Callable[[int], Tensor]) -> int:
        """Up to how many rows `few` beats `many` on `example(rows)`; 0 when it never does."""
        known = self._known.setdefault(self._machine, {})
        if name not in known:
            known[name] = crossover(lambda kernel, rows: _seconds(kernel, example(rows)), few, many)
            self._changed = True
        return known[name]

    def save(self) -> None:
        """Losing it costs a fraction of a second at the next start, so a read-only folder is no error."""
        if self._path is None or not self._changed:
            return
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(self._known, indent=1, sort_keys=True))
            temporary.replace(self._path)
        except OSError:
            temporary.unlink(missing_ok=True)


def crossover(seconds: Callable[[Kernel, int], float], few: Kernel, many: Kernel) -> int:
    """The largest of `ROWS` for which `few` is faster, before it loses several sizes in a row; 0 if never."""
    limit = losses = 0
    for rows in ROWS:
        if seconds(few, rows) * GAIN <= seconds(many, rows):
            limit, losses = rows, 0
        elif (losses := losses + 1) == LOSSES:
            break
    return limit


def _seconds(kernel: Kernel, x: Tensor) -> float:
    """The best of a few tries, after one that warms up."""
    kernel(x)
    best, spent = float("inf"), 0.0
    for _ in range(TRIES):
        began = time.perf_counter()
        kernel(x)
        took = time.perf_counter() - began
        best, spent = min(best, took), spent + took
        if spent > ENOUGH_SECONDS:
            break
    return best


def _read(path: Path | None) -> dict[str, dict[str, int]]:
    """What was kept; nothing where the file is missing or damaged."""
    try:
        found = json.loads(path.read_text()) if path is not None else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(part, dict) for part in found.values()) else {}


def processor() -> str:
    """The processor's name and a digest of what it can do: virtual machines of one name may differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(_named(line) for line in reversed(lines))
    features = " ".join(sorted((found.get("flags") or found.get("Features") or "").split()))
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return f"{found.get('model name') or platform.machine()} ({digest})"


def _named(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()
