"""Dependencies point one way: engine and gateway know nothing of each other, nothing imports agents."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {
    "engine": {"engine"},
    "gateway": {"gateway"},
    "tools": {"tools"},
    "agents": {"agents", "tools"},
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_stay_within(package):
    for path in (ROOT / package).rglob("*.py"):
        ours = {name.split(".")[0] for name in imported(path)} & set(ALLOWED)
        assert ours <= ALLOWED[package], path


def test_the_command_imports_nothing_heavy():
    heavy = {"torch", "xgrammar", "transformers", "mcp", "redis", "uvicorn", "httpx", "rich", "pydantic"}
    for package in ALLOWED:
        for path in [*(ROOT / package).glob("cli*.py"), *(ROOT / package).glob("cli/*.py")]:
            top = ast.Module(ast.parse(path.read_text()).body, [])
            names = {
                (node.names[0].name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
                for node in top.body
                if isinstance(node, ast.Import | ast.ImportFrom)
            }
            assert not names & heavy, path
