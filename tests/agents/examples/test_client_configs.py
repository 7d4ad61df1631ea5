"""The configurations of other people's clients: they parse, docs/clients.md says the same, and so do the tests that run
these clients (`make clients`).
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.clients import known

ROOT = Path(__file__).resolve().parents[3]
CLIENTS = ROOT / "examples" / "clients"
DOCS = (ROOT / "docs" / "clients.md").read_text()
BASE = "http://127.0.0.1:8080"
PARSE = {".toml": tomllib.loads, ".json": json.loads, ".yaml": yaml.safe_load, ".yml": yaml.safe_load}


def parsed(name, text=None):
    return PARSE[Path(name).suffix]((CLIENTS / name).read_text() if text is None else text)


def in_docs(language):
    [block] = re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)
    return block


def row(client):
    """What the table of docs/clients.md says about a client: its code spans."""
    [line] = [line for line in DOCS.splitlines() if line.startswith(f"| {client}")]
    return re.findall(r"`([^`]+)`", line)


def played(text):
    """As the client tests write it: their names in the place of ours."""
    return re.sub(r"\bMODEL\b", "scripted", text).replace(BASE, "http://base")


@pytest.mark.parametrize(
    ("name", "language"),
    [("codex.config.toml", "toml"), ("opencode.json", "json"), ("continue.config.yaml", "yaml")],
)
def test_a_file_is_what_the_docs_say(name, language):
    assert parsed(name) == parsed(name, in_docs(language))


def test_claude_code():
    env = parsed("claude-code.settings.json")["env"]
    assert [f"{name}={value}" for name, value in env.items()] == row("Claude Code")


def test_aider():
    config = parsed("aider.conf.yml")
    base, key, model = row("aider")
    assert config == {
        "model": model,
        "openai-api-base": base.removeprefix("OPENAI_API_BASE="),
        "openai-api-key": key.removeprefix("OPENAI_API_KEY="),
    }


def test_cline():
    [command] = [line for line in (CLIENTS / "cline.sh").read_text().splitlines() if line.startswith("cline")]
    assert command == row("Cline")[-1]
    cline = next(client for client in known.CLIENTS if client.name == "cline")
    given = shlex.split(played(command))[1:]
    assert given == [word.replace("BASE", "http://base") for word in cline.before]


def test_codex_is_run_with_it(tmp_path):
    known._codex(tmp_path, "http://base")
    assert tomllib.loads(played((CLIENTS / "codex.config.toml").read_text())) == tomllib.loads(
        (tmp_path / ".codex/config.toml").read_text()
    )


def test_opencode_is_run_with_it(tmp_path):
    known._opencode(tmp_path, "http://base")
    ran = json.loads((tmp_path / ".config/opencode/opencode.json").read_text())
    del ran["permission"]  # nobody is there to ask
    assert json.loads(played((CLIENTS / "opencode.json").read_text())) == ran


def test_claude_code_is_run_with_it(tmp_path):
    ours = json.loads(played((CLIENTS / "claude-code.settings.json").read_text()))["env"]
    assert ours.items() <= known._claude(tmp_path, "http://base").items()


def test_every_client_of_the_docs_has_a_file_and_the_other_way_round():
    names = {path.name.partition(".")[0] for path in CLIENTS.iterdir()}
    assert names == {"aider", "claude-code", "cline", "codex", "continue", "opencode"}
    assert all(re.search(name.replace("-", " "), DOCS, re.IGNORECASE) for name in names)
