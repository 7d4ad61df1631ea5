"""What the figures were measured on, in one line: `python -m benchmarks.machine`."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16")


def describe() -> str:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    found = dict(cpu_fields())
    has = set(found.get("flags", "").split())
    flags = " ".join(flag for flag in FLAGS if flag in has) or "no vector flags known"
    model = found.get("model name") or platform.processor() or platform.machine()
    versions = f"torch {metadata.version('torch')}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {flags}; {versions}, {platform.system()}"


def cpu_fields(path: Path = Path("/proc/cpuinfo")) -> Iterator[tuple[str, str]]:
    """The first processor's fields; nothing where the system doesn't tell."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if not line.strip():
            return
        key, _, value = line.partition(":")
        yield key.strip(), value.strip()


if __name__ == "__main__":
    print(describe())
