"""`make demo`: the whole stack on the embedded default repairs a broken repository.

It starts `sapwood up` (embedded Redis, an engine with SmolLM2-135M, the gateway), copies `broken_calc` into a
temporary folder, and lets `sapwood code --branches 16` work on it. The tests decide: when no branch passes, it
says so and exits with 1.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from agents.stack import SAPWOOD

HERE = Path(__file__).resolve().parent
READY = re.compile(r"^sapwood up ready at (\S+)")
TASK = "The tests of this repository fail. Repair the function that is wrong."


def main() -> int:
    options = _options()
    up = subprocess.Popen(
        [*SAPWOOD, "up", "--port", "0", "--replicas", str(options.replicas)], stdout=subprocess.PIPE, text=True
    )
    try:
        url = _base_url(up)
        if url is None:
            return 2
        with tempfile.TemporaryDirectory(prefix="sapwood-demo-") as folder:
            repo = Path(folder) / "broken_calc"
            shutil.copytree(HERE / "broken_calc", repo)
            return _repair(url, repo, options)
    except KeyboardInterrupt:
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one Ctrl-C is enough; the stack ends by itself now
        up.send_signal(signal.SIGTERM)
        up.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Repair examples/broken_calc with the embedded stack.")
    parser.add_argument("--branches", type=int, default=16)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _base_url(up: subprocess.Popen[str]) -> str | None:
    """The gateway's address, or None when the stack ended first; its reason is on stderr."""
    assert up.stdout is not None
    for line in up.stdout:
        found = READY.match(line)
        if found:
            return f"{found.group(1)}/v1"
    return None


def _repair(url: str, repo: Path, options: argparse.Namespace) -> int:
    command = ["code", "-p", TASK, "--repo", str(repo), "--base-url", url]
    command += ["--branches", str(options.branches), "--seed", str(options.seed)]
    status = _run([*SAPWOOD, *command])
    if status == 0:
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=repo, check=False)
    elif status == 1:
        print("No branch passed the tests this time; nothing is staged here, so that can happen.")
    return status


def _run(command: list[str]) -> int:
    """Its exit status. After Ctrl-C, which it has got too, it is given the time to clean up."""
    child = subprocess.Popen(command)
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.wait()
        raise


if __name__ == "__main__":
    sys.exit(main())
