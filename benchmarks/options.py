"""Command-line options that several measurements share, and where their results go."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.scenario import Scenario


def parser(text: str | None) -> argparse.ArgumentParser:
    """Every measurement can write its figures."""
    options = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, help="write all figures to this file")
    return options


def add_scenario(options: argparse.ArgumentParser) -> None:
    default = Scenario()
    options.add_argument("--clients", type=count, default=default.clients)
    options.add_argument("--tokens", type=count, default=default.tokens, help="generated in each turn")
    options.add_argument("--scale", type=_scale, default=default.scale, help="divide the prompts by this")
    options.add_argument("--seed", type=int, default=default.seed)


def add_run(options: argparse.ArgumentParser) -> None:
    options.add_argument("--timeout", type=float, default=1800, help="seconds for one server's run")
    options.add_argument("--plot", type=Path, help="write a chart to this file (SVG)")


def add_model(options: argparse.ArgumentParser) -> None:
    """For measurements that load an engine into their own process."""
    options.add_argument("--model", default="smollm2", help="known name or .gguf file")
    options.add_argument("--threads", type=count, help="threads of the tensor library")


def scenario(given: argparse.Namespace) -> Scenario:
    return Scenario(given.clients, given.tokens, given.scale, given.seed)


def write_json(path: Path | None, value: Mapping[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(value, indent=2) + "\n")


def end_cleanly() -> None:
    """A SIGTERM leaves by the same way as Ctrl-C, so that every started process is ended."""

    def leave(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)


def count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def counts(text: str) -> list[int]:
    """Several, with commas between them."""
    return [count(part) for part in text.split(",")]


def _scale(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 100")
    return value
