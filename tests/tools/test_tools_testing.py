"""run_tests on small repositories: what failed, where, and the same words for the same result."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tools.report import Outcome, fold
from tools.sandbox import Sandbox
from tools.testing import run_pytest

Call = Callable[..., object]


@pytest.fixture
def repository(root: Path) -> Callable[[dict[str, str]], None]:
    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

    return write


def test_passing(repository: Callable, call: Call, root: Path) -> None:
    repository(
        {
            "calc.py": "def add(a, b):\n    return a + b\n",
            "test_calc.py": "from calc import add\ndef test_add():\n    assert add(1, 2) == 3\n",
        }
    )
    reply = call("run_tests")
    assert (reply.text, reply.failed) == ("1 passed", False)
    assert reply.data["outcome"] == "passed"
    assert reply.data["passed"] == 1
    assert reply.data["seconds"] > 0
    assert sorted(entry.name for entry in root.iterdir()) == ["calc.py", "test_calc.py"]


FAILING = """\
import pytest
from calc import add

def test_fine():
    pass

def test_add():
    assert add(1, 2) == 3, object()

def test_raises(tmp_path):
    raise ValueError(str(tmp_path))

@pytest.fixture
def broken():
    add(None, None)

def test_setup(broken):
    pass

@pytest.mark.skip
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected():
    assert 0
"""


def test_failing_is_precise_and_the_same_every_time(repository: Callable, call: Call) -> None:
    repository({"calc.py": "def add(a, b):\n    return a - b\n", "tests/test_calc.py": FAILING, "conftest.py": ""})
    first, second = call("run_tests"), call("run_tests")
    assert first.text == second.text
    lines = first.text.splitlines()
    assert lines[0] == "2 failed, 1 errors, 1 passed, 2 skipped"
    assert lines[1] == "1. tests/test_calc.py::test_add"
    assert lines[2].startswith("   tests/test_calc.py:8: AssertionError: <object object at 0x...>")
    assert "assert -1 == 3" in first.text
    assert "where -1 = add(1, 2)" in first.text
    assert "   tests/test_calc.py:11: ValueError: <tmp>/test_raises0" in lines
    assert "   calc.py:2: TypeError: unsupported operand type(s) for -: 'NoneType' and 'NoneType'" in lines
    failures = first.data["failures"]
    assert [(one["nodeid"], one["file"], one["line"]) for one in failures] == [
        ("tests/test_calc.py::test_add", "tests/test_calc.py", 8),
        ("tests/test_calc.py::test_raises", "tests/test_calc.py", 11),
        ("tests/test_calc.py::test_setup", "calc.py", 2),
    ]


def test_one_target(repository: Callable, call: Call) -> None:
    repository(
        {
            "test_a.py": "def test_one():\n    assert 0\ndef test_two():\n    pass\n",
            "test_b.py": "def test_b():\n    assert 0\n",
        }
    )
    assert call("run_tests", target="test_a.py::test_two").text == "1 passed"
    assert call("run_tests", target="test_a.py").data["failed"] == 1
    missing = call("run_tests", target="test_a.py::test_nine")
    assert missing.data["outcome"] == "broken"
    assert "not found" in missing.text


@pytest.mark.parametrize("target", ["missing.py", "../other", "-p evil", "--help"])
def test_a_target_that_is_no_path_is_refused(repository: Callable, call: Call, target: str) -> None:
    repository({"test_a.py": "def test_one():\n    pass\n"})
    assert call("run_tests", target=target).failed


def test_a_collection_error_is_a_failure_with_its_reason(repository: Callable, call: Call) -> None:
    repository(
        {"test_a.py": "import nowhere\n", "test_b.py": "def test_b(:\n", "test_c.py": "def test_c():\n    pass\n"}
    )
    reply = call("run_tests")
    assert reply.data["outcome"] == "broken"
    assert reply.data["errors"] == 2
    assert "1. test_a.py\n" in reply.text
    assert "ModuleNotFoundError: No module named 'nowhere'" in reply.text
    assert "SyntaxError" in reply.text


def test_no_tests(repository: Callable, call: Call) -> None:
    repository({"calc.py": "x = 1\n"})
    reply = call("run_tests")
    assert reply.data["outcome"] == "no tests"
    assert reply.text == "no tests were found"


def test_a_test_without_end_is_named(repository: Callable, call: Call) -> None:
    repository({"test_a.py": "def test_fine():\n    pass\ndef test_loop():\n    while True:\n        pass\n"})
    reply = call("run_tests", timeout=2)
    assert reply.failed
    assert reply.text == "the tests timed out in test_a.py::test_loop (1 passed)"
    assert reply.data["outcome"] == "timed out"


def test_a_test_that_kills_pytest_is_named(repository: Callable, call: Call) -> None:
    repository({"test_a.py": "import os\ndef test_die():\n    os._exit(3)\n"})
    reply = call("run_tests")
    assert reply.data["outcome"] == "broken"
    assert "pytest did not finish in test_a.py::test_die" in reply.text
    assert "[exit code 3]" in reply.text


def test_noise_and_options_do_not_confuse(repository: Callable, call: Call) -> None:
    repository(
        {
            "pytest.ini": "[pytest]\naddopts = -v -s --junitxml=out.xml\n",
            "test_a.py": "def test_a():\n    print('9 failed, 9 passed' * 100_000)\n    assert True\n",
        }
    )
    assert call("run_tests").text == "1 passed"


def test_the_configuration_of_a_project_around_is_not_taken(repository: Callable, call: Call, root: Path) -> None:
    (root.parent / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (root.parent / "conftest.py").write_text("raise RuntimeError\n")
    repository({"tests/test_a.py": "def test_a():\n    pass\n"})
    assert call("run_tests").text == "1 passed"


def test_a_broken_configuration_is_shown(repository: Callable, call: Call) -> None:
    repository({"pytest.ini": "[pytest]\naddopts = --no-such-option\n", "test_a.py": "def test_a():\n    pass\n"})
    reply = call("run_tests")
    assert reply.data["outcome"] == "broken"
    assert "--no-such-option" in reply.text


def test_the_repository_s_own_python_is_used(repository: Callable, call: Call, root: Path) -> None:
    repository(
        {
            "test_a.py": "def test_a():\n    pass\n",
            ".venv/bin/python": "#!/bin/sh\necho 'No module named pytest'; exit 1\n",
        }
    )
    (root / ".venv/bin/python").chmod(0o755)
    reply = call("run_tests")
    assert reply.failed
    assert "pytest is not installed for" in reply.text


def test_a_named_python_comes_before_the_repository_s(repository: Callable, root: Path) -> None:
    repository({"test_a.py": "def test_a():\n    pass\n", ".venv/bin/python": "#!/bin/sh\nexit 1\n"})
    (root / ".venv/bin/python").chmod(0o755)
    with Sandbox(root, python=sys.executable) as sandbox:
        assert anyio.run(run_pytest, sandbox).passed == 1


def test_a_report_cut_in_the_middle_still_counts() -> None:
    events = [
        {"event": "test", "nodeid": "t::a", "when": "call", "outcome": "passed", "expected": False},
        {"event": "start", "nodeid": "t::b"},
    ]
    run = fold([*map(json.dumps, events), '{"event": "te'])
    assert (run.outcome, run.passed, run.running) == (Outcome.BROKEN, 1, "t::b")


def test_nothing_outside_is_written_through_a_link_that_a_command_left(call, sandbox, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("pytest.ini", "setup.cfg", "tox.ini"):
        os.symlink(victim, sandbox.home / name)
    (sandbox.root / "test_one.py").write_text("def test_one(): pass\n")
    assert call("run_tests").text == "1 passed"
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["pytest.ini", "setup.cfg"])
def test_a_pipe_as_configuration_is_not_waited_for(call, root, name):
    os.mkfifo(root / name)
    assert not call("run_tests", timeout=1).text.startswith("run_tests failed inside")


@pytest.mark.parametrize("line", ["[]", "5", "{}", '{"event": "test"}', '{"event": "finish", "exit": []}', "[" * 9999])
def test_a_line_that_a_test_put_into_the_report_changes_nothing(call, root, line):
    (root / "test_one.py").write_text(
        f"import os\n\ndef test_one():\n    open(os.environ['SAPWOOD_REPORT'], 'a').write({line!r} + chr(10))\n"
    )
    assert call("run_tests").text == "1 passed"


def test_a_pipe_in_the_place_of_the_report_is_not_read(call, root):
    (root / "test_one.py").write_text(
        "import os\n\npath = os.environ['SAPWOOD_REPORT']\n\ndef test_a():\n    os.unlink(path)\n    os.mkfifo(path)\n"
    )
    assert "pytest did not finish" in call("run_tests").text


def test_a_command_of_one_s_own_decides(serve, root):
    call = serve(test_command="cat result; exit $(cat code)")
    (root / "result").write_text("3 of 3\n")
    (root / "code").write_text("0")
    reply = call("run_tests")
    assert (reply.text, reply.failed) == ("the tests passed (cat result; exit $(cat code))\n3 of 3", False)
    assert (reply.data["outcome"], reply.data["exit_code"]) == ("passed", 0)
    (root / "code").write_text("2")
    reply = call("run_tests")
    assert reply.text.startswith("the tests failed with exit code 2 (")
    assert (reply.data["outcome"], reply.data["exit_code"], reply.failed) == ("failed", 2, False)


def test_a_command_without_end_is_ended_and_named(serve):
    reply = serve(test_command="echo begun; sleep 60")("run_tests", timeout=1)
    assert reply.failed
    assert reply.text == "the tests timed out and were killed (echo begun; sleep 60)\nbegun"
    assert (reply.data["outcome"], reply.data["timed_out"]) == ("timed out", True)


def test_a_command_s_output_is_cut_and_can_be_read_on(serve):
    reply = serve(test_command="seq 100000")("run_tests")
    assert reply.text.endswith("[the middle was left out; to read on, run: sed -n '1451,1650p' ~/output/1.txt]")
    assert len(reply.text) < 13_000


def test_tests_see_no_secret(call, serve, root, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    (root / "test_env.py").write_text("import os\n\ndef test_env():\n    assert not dict(os.environ)\n")
    (root / "a.txt").touch()
    said = [
        call("run_tests"),
        call("run_command", command="env"),
        serve(test_command="env")("run_tests"),
        serve(checks={"*.txt": "env; exit 1"})("check_code", path="a.txt"),
    ]
    assert all("PATH" in reply.text for reply in said)
    assert not any("sk-secret" in reply.text for reply in said)


def test_a_failure_alone_shows_more_of_itself(repository, call):
    body = "    raise ValueError('line ' + '\\nline '.join(map(str, range(100))))\n"
    repository({"test_a.py": "".join(f"def test_{number}():\n{body}" for number in range(7))})
    text = call("run_tests").text
    assert "more lines; run_tests, target test_a.py::test_0, shows more]" in text
    assert text.endswith("[2 more not shown; run_tests, target test_a.py::test_5, shows the next]")
    alone = call("run_tests", target="test_a.py::test_0").text
    assert len(alone.splitlines()) > 30
