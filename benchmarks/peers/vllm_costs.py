"""What a grammar costs vLLM, measured in its environment without a server: no model's time is in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers import vllm_grammar
from benchmarks.peers.base import PeerError, last_words
from benchmarks.peers.hf_folder import hf_folder
from benchmarks.peers.vllm import Vllm

SECONDS = 400
SETTINGS = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def vllm_costs(
    env: Path, model: Path, tools: Sequence[Any], calls: Sequence[tuple[str, Any]], turns: int
) -> dict[str, float]:
    """Figures of `vllm_grammar`, in `env`, which is made where it isn't there. PeerError where that can't be."""
    Vllm().install(env)
    folder = hf_folder(model, env / "models" / model.stem)
    given = {"folder": str(folder), "tools": list(tools), "turns": turns, "calls": list(calls)}
    return run_script([str(env / "bin" / "python"), "-P", vllm_grammar.__file__], given, env / "grammar.log")


def run_script(command: Sequence[str], given: Mapping[str, Any], log: Path) -> dict[str, float]:
    """The last line that a script prints. PeerError with its last words where it prints none."""
    with log.open("w") as out:
        try:
            done = subprocess.run(
                command,
                input=json.dumps(given),
                stdout=subprocess.PIPE,
                stderr=out,
                env={**os.environ, **SETTINGS},
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PeerError(f"not done after {SECONDS} s; see {log}") from None
        except OSError as error:
            raise PeerError(f"{command[0]}: {error.strerror}") from None
    if done.returncode != 0 or not done.stdout.strip():
        raise PeerError(f"ended with status {done.returncode}: {last_words(log)}; see {log}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
