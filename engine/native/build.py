"""Compiles the C kernels for this very machine, once, and loads them.

A kernel is one C file without dependencies. It is compiled with whatever C compiler is there (a second or two), kept
in the cache folder under a digest of its sources, the compiler and the processor, and called through ctypes, which
lets other threads run meanwhile. Where there is no compiler the engine does the same work with torch's operators.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from engine.model.calibration import processor
from engine.weights.source import home_folder

log = logging.getLogger("sapwood.native")

SOURCES = Path(__file__).parent
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=fast", "-fno-math-errno")
FLAGS_OF_X86 = ("-march=native", "-mprefer-vector-width=512")
FLAGS_OF_OTHERS = ("-mcpu=native",)
COMPILE_SECONDS = 120


@cache
def library() -> ctypes.CDLL | None:
    """The kernels; None, with a line in the log, where they can't be had."""
    compiler = find_compiler()
    if compiler is None:
        log.info("no C compiler found: attention runs on torch operators (install gcc or clang for the faster kernels)")
        return None
    try:
        return ctypes.CDLL(str(compiled(compiler, home_folder() / "native")))
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("the C kernels can't be used, torch operators serve instead: %s", _reason(error))
        return None


def find_compiler() -> list[str] | None:
    """$CC, a compiler on the path, or the one that the package `ziglang` brings."""
    if named := os.environ.get("CC"):
        return shlex.split(named)
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def flags_of_machine() -> tuple[str, ...]:
    return FLAGS_OF_X86 if platform.machine() in ("x86_64", "AMD64") else FLAGS_OF_OTHERS


def compiled(compiler: list[str], folder: Path, machine: tuple[str, ...] | None = None) -> Path:
    """The shared library in `folder`, compiled if it isn't there, with the flags `machine` for the processor.

    OSError, SubprocessError.
    """
    flags = FLAGS + (flags_of_machine() if machine is None else machine)
    sources = sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.h")])
    digest = hashlib.sha256(repr((compiler, flags, processor())).encode())
    for source in sources:
        digest.update(source.read_bytes())
    target = folder / f"kernels-{digest.hexdigest()[:16]}.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_suffix(f".{os.getpid()}")
        files = [str(source) for source in sources if source.suffix == ".c"]
        try:
            subprocess.run(
                [*compiler, *flags, "-o", str(unfinished), *files],
                check=True,
                capture_output=True,
                timeout=COMPILE_SECONDS,
            )
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    return target


@cache
def openmp() -> tuple[int, int] | None:
    """Addresses of GOMP_parallel and GOMP_barrier in the OpenMP runtime that torch has loaded: kernels share its
    threads, so that two pools never compete for the cores. None where torch uses another runtime."""
    home = Path(torch.__file__).parent
    candidates = [*(home / "lib").glob("libgomp*"), *(home.parent / "torch.libs").glob("libgomp*"), None]
    for candidate in candidates:
        try:
            runtime = ctypes.CDLL(None if candidate is None else str(candidate))
            parallel, barrier = runtime.GOMP_parallel, runtime.GOMP_barrier
        except (OSError, AttributeError):
            continue
        return _address(parallel), _address(barrier)
    return None


def _address(function: object) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    return address


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        lines: list[str] = error.stderr.decode(errors="replace").strip().splitlines()
        return lines[0] if lines else f"the compiler exited with {error.returncode}"
    return str(error)
