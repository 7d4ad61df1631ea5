"""The example repositories are broken as they say, and the agent repairs them: a scripted model plays the part."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agents.state import Status

REPAIRS = (
    ("#include <stdio.h>", "#include <ctype.h>\n#include <stdio.h>"),
    ("static void tally", "static unsigned long tally"),
    ("    int c;\n", "    unsigned long total = 0;\n    int c;\n"),
    (
        "            counts[tolower(c) - 'a']++\n",
        "            counts[tolower(c) - 'a']++, total++;\n    return total;\n",
    ),
    ('"%c %d\\n"', '"%c %lu\\n"'),
    ("    tally(stdin, counts);", "    unsigned long total = tally(stdin, counts);"),
)
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def copy(repo):
    """Puts an example in the place of the repository that `run` works in."""

    def make(name):
        shutil.rmtree(repo)
        return shutil.copytree(EXAMPLES / name, repo)

    return make


def test_a_failing_test(copy, run, upstream):
    place = copy("broken_calc")
    upstream.turns = [
        upstream.use("run_tests"),
        upstream.use("edit_file", path="calc.py", old="return n % 2 == 1", new="return n % 2 == 0"),
        upstream.say("done"),
    ]
    assert run().status is Status.SOLVED
    assert "1 failed, 2 passed" in upstream.bodies[1]["messages"][-1]["content"]
    assert "n % 2 == 0" in (place / "calc.py").read_text()


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("make") is None, reason="needs a C compiler and make")
def test_a_c_program_that_must_compile(copy, run, upstream):
    place = copy("c_program")
    assert subprocess.run(["make", "check"], cwd=place, capture_output=True, check=False).returncode != 0
    repaired = (place / "histogram.c").read_text()
    for old, new in REPAIRS:
        assert repaired.count(old) == 1
        repaired = repaired.replace(old, new)
    upstream.turns = [
        upstream.use("check_code", path="histogram.c"),
        upstream.use("write_file", path="histogram.c", content=repaired),
        upstream.use("check_code", path="histogram.c"),
        upstream.say("It compiles."),
    ]
    ended = run(tests="make check")
    assert ended.status is Status.SOLVED, ended.reason
    diagnostics = upstream.bodies[1]["messages"][-1]["content"]
    assert "histogram.c:29:12: error: 'total' undeclared" in diagnostics
    assert "histogram.c" not in upstream.bodies[3]["messages"][-1]["content"]
    assert (place / "histogram").is_file()
