"""run_command: what carries over, what never does, what it says while it runs, and how to read on."""

from __future__ import annotations

import re
import secrets

import anyio
import pytest
from mcp import Client

from tools import shell_state
from tools.sandbox import Limits, Sandbox
from tools.sandbox import sandbox as sandbox_module
from tools.sandbox.outputs import Outputs
from tools.server import build_server


@pytest.fixture
def run(call):
    return lambda command, **options: call("run_command", command=command, **options)


@pytest.mark.parametrize("program", ["bash", "/bin/sh"])
def test_directory_and_exports_carry_over(run, root, monkeypatch, program):
    if program != "bash":
        monkeypatch.setattr(shell_state, "shell", lambda: program)
        monkeypatch.setattr(sandbox_module, "shell", lambda: program)
    (root / "src dir").mkdir()
    assert run("cd 'src dir' && export A='two words\nand a line'").text == "[exit code 0, now in src dir]"
    assert run('basename "$PWD"; echo "$A"').text == "src dir\ntwo words\nand a line\n[exit code 0, now in src dir]"
    assert run("cd ..").text == "[exit code 0]"


def test_variables_and_functions_carry_over_in_bash(run):
    run('x=5; list=(1 2 3); declare -A map=([a]=b); greet() { echo hello "$1"; }; IFS=,; PATH=$PATH:/extra')
    reply = run('greet you; echo "$x ${list[1]} ${map[a]}"; printf %q "$IFS"; echo "${PATH##*:}"')
    assert reply.text == "hello you\n5 2 b\n\\,/extra\n[exit code 0]"


def test_options_and_traps_do_not_carry_over(run):
    assert run("set -e; false; echo never").text == "[exit code 1]"
    assert run("false; echo reached").text == "reached\n[exit code 0]"


def test_what_exit_leaves_is_kept(run):
    assert run("cd /usr; x=1; exit 3").text == "[exit code 3, now in /usr]"
    assert run("echo $x").text == "1\n[exit code 0, now in /usr]"


@pytest.mark.parametrize(
    "command", ["cd /usr; x=2; kill -KILL $$", "cd /usr; x=2; exec false", "cd /usr; trap '' EXIT"]
)
def test_a_shell_that_is_lost_takes_only_its_own_changes_along(run, root, command):
    (root / "src").mkdir()
    run("cd src; x=1")
    assert run(command).text.endswith("; a new shell goes on in src]")
    assert run('echo "$x $(basename "$PWD")"').text == "1 src\n[exit code 0, now in src]"


def test_a_command_that_hangs_takes_only_its_own_changes_along(run, root, processes):
    marker = f"{secrets.randbelow(9000) + 1000}.{secrets.randbelow(10**9)}"
    (root / "src").mkdir()
    run("cd src; x=1")
    reply = run(f"cd /usr; x=2; trap '' TERM; sleep {marker} & sleep {marker}", timeout=1)
    assert reply.failed
    assert reply.text == (
        "[timed out after 1 s; the command and everything it started were killed; a new shell goes on in src]"
    )
    assert processes(marker) == []
    assert run("echo $x").text == "1\n[exit code 0, now in src]"


def test_what_runs_in_the_background_ends_with_its_command(run, processes):
    marker = f"{secrets.randbelow(9000) + 1000}.{secrets.randbelow(10**9)}"
    assert run(f"sleep {marker} & (setsid sleep {marker} &) ; echo started").text == "started\n[exit code 0]"
    assert processes(marker) == []


def test_a_directory_that_is_gone_is_left_for_the_root(run, root):
    (root / "src").mkdir()
    assert run("cd src").text == "[exit code 0, now in src]"
    (root / "src").rmdir()
    assert run("pwd").text == f"{root}\n[exit code 0]"


def test_a_state_without_end_is_not_kept(run):
    assert (
        run("x=1; y=$(head -c 2000000 /dev/zero | tr '\\0' y)").text == "[exit code 0; a new shell goes on in the root]"
    )
    assert run('echo "[$x]"').text == "[]\n[exit code 0]"


def test_complaints_name_the_command_s_own_lines(run):
    run("cd .")
    assert re.search(r"line 2: no-such-program: .*not found", run("true\nno-such-program").text)
    assert "unexpected EOF" in run("echo 'open").text


def test_a_dash_and_quotes_are_no_trouble(run):
    assert run("-x 2>/dev/null; echo \"it's\" '$HOME'").text == "it's $HOME\n[exit code 0]"


def test_nothing_of_a_command_is_left_in_the_home(run, sandbox):
    run("cd /usr")
    run("sleep 9", timeout=1)
    assert [entry.name for entry in sandbox.home.iterdir() if entry.name.startswith("shell")] == []


def test_a_planted_link_is_neither_read_nor_written_through(run, sandbox, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    run(f"mkdir -p ~/output; ln -s {victim} ~/output/1.txt; rm ~/shell-*.after; ln -s {victim} ~/shell-x.after")
    run("seq 100000")
    assert victim.read_text() == "precious"


def test_the_call_that_reads_on_reads_on(run):
    reply = run("seq 100000")
    head = reply.text.split("[...")[0].splitlines()
    command = re.search(r"to read on, run: (.*)\]", reply.text)[1]
    more = run(command).text.splitlines()
    assert more[0] == str(int(head[-1]) + 1)
    assert len(more) == 201
    assert run("grep -n '^77777$' ~/output/1.txt").text == "77777:77777\n[exit code 0]"


def test_one_long_line_can_be_read_on_too(run):
    reply = run("printf 'word%.0s ' $(seq 9000)")
    command = re.search(r"to read on, run: (.*)\]\n", reply.text)[1]
    assert command.startswith("fold -w 200 ~/output/1.txt | sed -n")
    assert run(command).text.count("word") > 1000


def test_a_kept_output_is_bounded_and_the_newest_stay(tmp_path):
    with Sandbox(tmp_path, Limits(kept_bytes=50_000, output_bytes=2000)) as sandbox:
        done = anyio.run(lambda: sandbox.run("seq 100000", keep=True))
        kept = (sandbox.home / "output/1.txt").read_text()
        assert (done.file, done.truncated) == ("~/output/1.txt", True)
        assert len(kept) < 51_000
        assert kept.endswith("\n100000\n")
        outputs = Outputs(sandbox.home)
        assert [outputs.keep(str(number)) for number in range(10)][-1] == "~/output/10.txt"
        assert sorted(int(path.stem) for path in (sandbox.home / "output").iterdir()) == list(range(3, 11))


def test_where_an_output_cannot_be_kept_another_way_is_named(run):
    run("rm -rf ~/output; touch ~/output")
    assert "to read on, run it again through grep, head, tail or sed -n]" in run("seq 100000").text


WAITING = "while [ ! -e go ]; do sleep 0.01; done"
WAITING_TEST = """
import pathlib, time

def test_first():
    pass

def test_second():
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("tool", "arguments", "options", "first", "text"),
    [
        ("run_command", {"command": f"echo first; {WAITING}; echo last"}, {}, "first\n", "first\nlast\n[exit code 0]"),
        ("run_tests", {}, {}, ".", "2 passed"),
        ("run_tests", {}, {"test_command": f"echo first; {WAITING}"}, "first\n", "the tests passed"),
    ],
)
def test_output_is_told_while_it_runs(sandbox, tool, arguments, options, first, text):
    (sandbox.root / "test_a.py").write_text(WAITING_TEST)
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        (sandbox.root / "go").touch()

    async def go() -> str:
        async with Client(build_server(sandbox, **options)) as client:
            result = await client.call_tool(tool, {**arguments, "timeout": 20}, progress_callback=hear)
            return result.content[0].text

    assert anyio.run(go).startswith(text)
    assert told[0].startswith(first)
