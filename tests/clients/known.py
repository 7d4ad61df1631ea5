"""The clients that people use: how each is installed, pointed at a base URL and given a task without a terminal."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.scripted import MARK

TASK = f"Run a command that writes the text {MARK} into the file made.txt, then say that you are done."
INSTALL_SECONDS = 900


class CannotInstall(Exception):
    """Why a client can't be had here, in one line."""


@dataclass(frozen=True)
class Client:
    """`package` is an npm or a PyPI requirement. `configure` writes files into the home folder that it is given, and
    returns the environment; `command` comes after the program."""

    name: str
    package: str
    program: str
    command: tuple[str, ...]
    configure: Callable[[Path, str], Mapping[str, str]]
    with_tools: bool = True
    says: str = "All done"
    node: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """A command of the program's own that comes first; `BASE` in it stands for the gateway."""

    def install(self, folder: Path) -> Path:
        """The program's path; at once where a former call has installed the same."""
        home = folder / self.name
        stamp = home / ".installed"
        if not (stamp.is_file() and stamp.read_text() == repr((self.package, self.node))):
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            (self._npm if self.node else self._pip)(home)
            stamp.write_text(repr((self.package, self.node)))
        return home / ("node_modules/.bin" if self.node else "bin") / self.program

    def _npm(self, home: Path) -> None:
        if shutil.which("npm") is None:
            raise CannotInstall("npm is not here")
        quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(home)]
        _run(["npm", "install", *quiet, f"node@{self.node}", self.package], home)

    def _pip(self, home: Path) -> None:
        _run([sys.executable, "-m", "venv", str(home)], home)
        _run([str(home / "bin/python"), "-m", "pip", "install", "--quiet", self.package], home)


def _run(command: list[str], home: Path) -> None:
    log = home / "install.log"
    with log.open("ab") as out:
        try:
            done = subprocess.run(
                command,
                cwd=home,
                stdout=out,
                stderr=out,
                timeout=INSTALL_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotInstall(str(error)) from None
    if done.returncode != 0:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise CannotInstall(f"{command[0]} ended with {done.returncode}: {''.join(last)[:200]}")


def _codex(home: Path, base: str) -> Mapping[str, str]:
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(
        f'model = "scripted"\nmodel_provider = "sapwood"\n\n[model_providers.sapwood]\nname = "Sapwood"\n'
        f'base_url = "{base}/v1"\nwire_api = "responses"\nenv_key = "SAPWOOD_KEY"\n'
    )
    return {"SAPWOOD_KEY": "unused"}


def _claude(home: Path, base: str) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_AUTH_TOKEN": "unused",
        "ANTHROPIC_MODEL": "scripted",
        "ANTHROPIC_SMALL_FAST_MODEL": "scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


def _opencode(home: Path, base: str) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Sapwood",
        "options": {"baseURL": f"{base}/v1", "apiKey": "unused"},
        "models": {"scripted": {"name": "scripted"}},
    }
    config = {"model": "sapwood/scripted", "provider": {"sapwood": provider}, "permission": {"bash": "allow"}}
    (home / ".config/opencode").mkdir(parents=True)
    (home / ".config/opencode/opencode.json").write_text(json.dumps(config))
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


def _nothing(home: Path, base: str) -> Mapping[str, str]:
    return {}


def _openai(home: Path, base: str) -> Mapping[str, str]:
    return {"OPENAI_API_BASE": f"{base}/v1", "OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": "unused"}


CLIENTS = (
    Client(
        "codex",
        "@openai/codex@0.171.0",
        "codex",
        ("exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", TASK),
        _codex,
        node="22",
    ),
    Client(
        "claude-code",
        "@anthropic-ai/claude-code@2.1.332",
        "claude",
        ("-p", TASK, "--output-format", "json", "--allowedTools", "Bash"),
        _claude,
        node="22",
    ),
    Client("opencode", "opencode-ai@1.18.33", "opencode", ("run", "--format", "json", TASK), _opencode, node="22"),
    Client(
        "cline",
        "cline@3.0.65",
        "cline",
        ("--json", "--provider", "openai-compatible", "--model", "scripted", TASK),
        _nothing,
        node="22",
        before=("auth", "openai-compatible", "--apikey", "unused", "--modelid", "scripted", "--baseurl", "BASE/v1"),
    ),
    Client(
        "aider",
        "aider-chat==0.86.2",
        "aider",
        (
            *("--model", "openai/scripted", "--message", TASK, "--yes-always", "--no-pretty", "--no-git", "made.txt"),
            *("--edit-format", "diff", "--no-check-update", "--no-show-model-warnings", "--analytics-disable"),
        ),
        _openai,
        with_tools=False,
        says="Applied edit",
    ),
    Client(
        "mini-swe-agent",
        "mini-swe-agent==2.4.6",
        "mini",
        ("-m", "openai/scripted", "-t", TASK, "-y", "--exit-immediately", "-o", "t.traj.json"),
        _openai,
        extra={"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors"},
    ),
)
