"""Sessions written event by event, as the agent writes them, with a clock of their own."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from agents import session as session_module
from agents.events import Kind
from agents.session import Session, folder_of

TOOLS = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": {"type": "object"}}}
    for name, text in (("edit_file", "Replace one exact piece of text in a file."), ("run_tests", "Run the tests."))
]
DIFF = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b"
FAILED = {"outcome": "failed", "passed": 1, "failed": 1, "failures": []}
PASSED = {"outcome": "passed", "passed": 2, "failed": 0, "failures": []}


class Scribe:
    """Writes one session; every step is what the loop would have written."""

    def __init__(self, session: Session) -> None:
        self.session, self.ids = session, count(1)

    @property
    def id(self):
        return self.session.state.id

    @property
    def path(self):
        return self.session.path

    def turn(self, text="", calls=(), cost=(100, 90, 12), reasoning="", finish="tool_calls"):
        """`calls`: (name, arguments as text). Their ids."""
        prompt, cached, completion = cost
        self.session.append(Kind.ASK, turn=len(self.session.state.turns) + 1, tool_choice="auto", seed=None)
        ids = [f"c{next(self.ids)}" for _ in calls]
        wire = [
            {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
            for identity, (name, arguments) in zip(ids, calls, strict=True)
        ]
        message = {"role": "assistant", "content": text or None}
        message |= {"reasoning_content": reasoning} if reasoning else {}
        message |= {"tool_calls": wire} if wire else {}
        tokens = {"prompt": prompt, "cached": cached, "completion": completion, "ttft": 0.031, "seconds": 0.531}
        self.session.append(Kind.REPLY, message=message, finish_reason=finish if wire else "stop", cost=tokens)
        return ids

    def result(self, identity, text, data=None, is_error=False):
        self.session.append(Kind.CALL, call=identity, name="x")
        self.session.append(Kind.RESULT, call=identity, text=text, is_error=is_error, data=data, fault=None)

    def verify(self, verdict, text):
        self.session.append(Kind.VERIFY, verdict=verdict, text=text, data=None)

    def say(self, text, origin="tests"):
        self.session.append(Kind.MESSAGE, message={"role": "user", "content": text}, origin=origin)

    def rest(self, status, reason):
        self.session.append(Kind.STATUS, status=status, reason=reason)

    def fork(self, label):
        return Scribe(self.session.fork(label))


@pytest.fixture
def clock(monkeypatch):
    """Events are a quarter of a second apart."""
    ticks = count()
    monkeypatch.setattr(session_module.time, "time", lambda: 1_767_348_000 + next(ticks) / 4)


@pytest.fixture
def begin(tmp_path, clock):
    """Begins a session in the repository `tmp_path / "repo"`."""
    repo: Path = tmp_path / "repo"
    repo.mkdir()

    def make(task="Repair add.", **opened):
        given = {
            "task": task,
            "model": "scripted",
            "base_url": "http://127.0.0.1:1/v1",
            "profile": "full",
            "branches": 1,
            "seed": None,
            "messages": [{"role": "system", "content": "You repair code."}, {"role": "user", "content": task}],
            "tools": TOOLS,
            "sampling": {},
            "output_limit": 12_000,
            "tests": {"tool": "run_tests", "arguments": {}},
            "bound": {},
            "notes": {},
        }
        return Scribe(Session.open(folder_of(repo), given | opened))

    make.repo = repo
    return make


@pytest.fixture
def solved(begin):
    """A session that ended well: tests, an edit, tests, the agent's own run."""
    scribe = begin()
    [run] = scribe.turn("I run the tests first.", [("run_tests", "{}")], cost=(100, 0, 9))
    scribe.result(run, "1 failed, 1 passed\ntest_calc.py:4: assert -1 == 5", FAILED)
    arguments = json.dumps({"path": "calc.py", "old": "a - b", "new": "a + b"}, separators=(" ,", " : "))
    [edit] = scribe.turn("", [("edit_file", arguments)], cost=(160, 108, 30), reasoning="It subtracts.")
    scribe.result(edit, DIFF)
    scribe.turn("Repaired:\n```python\nreturn a + b\n```\nThat is all.", cost=(240, 189, 14))
    scribe.verify("passed", "2 passed")
    scribe.rest("solved", "the tests pass")
    return scribe


@pytest.fixture
def branched(begin):
    """A trunk of one turn and two branches; b2 passes."""
    trunk = begin(branches=2, seed=1)
    [run] = trunk.turn("", [("run_tests", "{}")], cost=(100, 0, 9))
    trunk.result(run, "1 failed, 1 passed", FAILED)
    first, second = trunk.fork("b1"), trunk.fork("b2")
    [edit] = first.turn("", [("edit_file", '{"path": "calc.py"}')], cost=(150, 140, 20))
    first.result(edit, "no such text", is_error=True)
    [edit] = second.turn("", [("edit_file", '{"path": "calc.py"}')], cost=(150, 140, 25))
    second.result(edit, DIFF)
    second.turn("done", cost=(230, 175, 3))
    second.verify("passed", "2 passed")
    second.rest("solved", "the tests pass")
    first.rest("cancelled", "another branch passed first")
    trunk.rest("solved", "branch b2 passes the tests; its changes were applied")
    trunk.branches = (first, second)
    return trunk
