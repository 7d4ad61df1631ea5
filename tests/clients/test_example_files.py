"""The files of `examples/clients`, in the hands of the clients that they are for. (Codex, opencode and Cline run in
`test_clients.py` with the same settings: `tests/agents/examples/test_client_configs.py` compares them.)
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clients.known import CLIENTS, TASK, Client
from tests.clients.scripted import MARK
from tests.clients.test_clients import _extends, gateway, prepared

__all__ = ["gateway"]
pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]
FILES = Path(__file__).resolve().parents[2] / "examples" / "clients"


def placed(name, at):
    """A configuration that is the example, with the names of this test."""

    def configure(home, base):
        text = re.sub(r"\bMODEL\b", "scripted", (FILES / name).read_text())
        (home / at).parent.mkdir(parents=True, exist_ok=True)
        (home / at).write_text(text.replace("http://127.0.0.1:8080", base))
        return {}

    return configure


known = {client.name: client for client in CLIENTS}
aider = known["aider"].command
WITH_FILES = (
    Client(
        "continue",
        "@continuedev/cli@1.5.47",
        "cn",
        ("--config", "HOME/.continue/config.yaml", "--auto", "-p", TASK),
        placed("continue.config.yaml", ".continue/config.yaml"),
        node="22",
    ),
    replace(
        known["aider"],
        command=aider[aider.index("--message") :],
        configure=placed("aider.conf.yml", ".aider.conf.yml"),
    ),
    replace(
        known["claude-code"],
        configure=placed("claude-code.settings.json", ".claude/settings.json"),
        extra={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"},
    ),
)


@pytest.mark.parametrize("client", WITH_FILES, ids=lambda client: client.name)
def test_a_client_works_with_its_file(client, gateway, tmp_path, request):
    script, url = gateway
    run, work = prepared(client, url, tmp_path, request)
    done = run([word.replace("HOME", str(tmp_path / "home")) for word in client.command])
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert (work / "made.txt").read_text().strip() == MARK, said[-3000:]
    if client.with_tools:
        _extends(script.conversations)
