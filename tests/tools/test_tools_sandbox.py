"""Commands: bounded in time, memory, output and file size, cut off from our secrets, and gone when they end."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tools.errors import ToolFault
from tools.sandbox import Completed, Limits, Sandbox
from tools.sandbox.isolation import Isolation

LINGERING = "trap '' TERM; (trap '' TERM; setsid sh -c \"trap '' TERM; sleep {0}\") & (trap '' HUP; sleep {0}) & {1}"


def run(sandbox: Sandbox, command: str | list[str], **options: object) -> Completed:
    return anyio.run(lambda: sandbox.run(command, **options))


@pytest.fixture
def marker() -> str:
    return f"{secrets.randbelow(9000) + 1000}.{secrets.randbelow(10**9)}"


def test_a_command_runs_in_the_root(sandbox: Sandbox, isolation: Isolation) -> None:
    done = run(sandbox, "pwd; echo problem >&2; exit 7")
    assert (done.exit_code, done.output) == (7, f"{sandbox.root}\nproblem\n")
    assert not done.timed_out
    assert not done.truncated


def test_an_argument_list_is_not_read_by_a_shell(sandbox: Sandbox) -> None:
    assert run(sandbox, ["echo", "$HOME; ls"]).output == "$HOME; ls\n"


def test_standard_input_is_given_or_empty(sandbox: Sandbox) -> None:
    assert run(sandbox, ["cat"], stdin=b"x" * 300_000, output_bytes=1 << 20).output == "x" * 300_000
    assert run(sandbox, ["cat"]).output == ""


def test_a_missing_program_is_127(sandbox: Sandbox, isolation: Isolation) -> None:
    done = run(sandbox, ["no-such-program"])
    assert done.exit_code == 127
    assert "no-such-program" in done.output


@pytest.mark.parametrize("command", ["", [], "a\0b", "echo " + "x" * 200_000])
def test_commands_that_cannot_be_run_are_refused(sandbox: Sandbox, command: str | list[str]) -> None:
    with pytest.raises(ToolFault):
        run(sandbox, command if command != "" else [])


def test_a_signal_is_told_as_a_shell_tells_it(sandbox: Sandbox, isolation: Isolation) -> None:
    assert run(sandbox, "kill -SEGV $$").exit_code == 128 + signal.SIGSEGV


def test_a_time_out_ends_descendants_that_ignore_it(
    sandbox: Sandbox, isolation: Isolation, marker: str, processes: Callable[[str], list[int]]
) -> None:
    seen: list[int] = []

    async def go() -> Completed:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            return await sandbox.run(LINGERING.format(marker, f"echo started; sleep {marker}"), timeout=1)

    async def watch() -> None:
        while len(seen) < 3:
            seen[:] = processes(marker)
            await anyio.sleep(0.01)

    done = anyio.run(go)
    assert done.timed_out
    assert done.output == "started\n"
    assert done.seconds < 5
    assert len(seen) >= 3
    assert processes(marker) == []


def test_what_a_command_leaves_running_ends_with_it(
    sandbox: Sandbox, isolation: Isolation, marker: str, processes: Callable[[str], list[int]]
) -> None:
    done = run(sandbox, LINGERING.format(marker, "echo done"), timeout=20)
    assert (done.exit_code, done.output, done.timed_out) == (0, "done\n", False)
    assert processes(marker) == []


def test_cancelling_ends_the_command(
    sandbox: Sandbox, isolation: Isolation, marker: str, processes: Callable[[str], list[int]]
) -> None:
    async def go() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: sandbox.run(LINGERING.format(marker, f"sleep {marker}")))
            with anyio.fail_after(10):
                while len(processes(marker)) < 3:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    anyio.run(go)
    assert processes(marker) == []


def test_commands_die_with_us(
    sandbox: Sandbox,
    isolation: Isolation,
    marker: str,
    processes: Callable[[str], list[int]],
    until: Callable[..., None],
) -> None:
    script = (
        "import anyio, sys\nfrom pathlib import Path\nfrom tools.sandbox import Sandbox, sandbox\n"
        "from tools.sandbox.isolation import Isolation\n"
        f"sandbox.best_isolation = lambda: Isolation.{isolation.name}\n"
        "anyio.run(Sandbox(Path(sys.argv[1])).run, sys.argv[2])\n"
    )
    command = LINGERING.format(marker, f"sleep {marker}")
    environment = {**os.environ, "TMPDIR": str(sandbox.root)}  # a killed owner leaves its temporary home
    owner = subprocess.Popen([sys.executable, "-c", script, str(sandbox.root), command], env=environment)
    try:
        until(lambda: len(processes(marker)) >= 3)
    finally:
        owner.kill()
        owner.wait()
    until(lambda: not processes(marker))


def test_much_output_is_bounded_and_quick(sandbox: Sandbox) -> None:
    done = run(sandbox, "echo first; head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo last", timeout=30)
    assert done.truncated
    assert done.omitted_bytes > 99_000_000
    assert len(done.output) < sandbox.limits.output_bytes + 100
    assert done.output.startswith("first\n")
    assert done.output.endswith("last\n")
    assert done.seconds < 10


def test_memory_is_limited(tmp_path: Path, isolation: Isolation) -> None:
    with Sandbox(tmp_path, Limits(memory_bytes=200 << 20)) as sandbox:
        assert "MemoryError" in run(sandbox, [sys.executable, "-c", "bytearray(400 << 20)"]).output
        assert run(sandbox, [sys.executable, "-c", "bytearray(50 << 20)"]).exit_code == 0


def test_file_size_is_limited(tmp_path: Path) -> None:
    with Sandbox(tmp_path, Limits(file_bytes=1 << 20)) as sandbox:
        assert run(sandbox, "head -c 9000000 /dev/zero > big").exit_code != 0
    assert (tmp_path / "big").stat().st_size == 1 << 20


def test_every_limit_is_set(tmp_path: Path, isolation: Isolation) -> None:
    limits = Limits(memory_bytes=1 << 30, file_bytes=1 << 20, processes=99)
    with Sandbox(tmp_path, limits) as sandbox:
        assert run(sandbox, ["bash", "-c", "ulimit -d; ulimit -f; ulimit -u; ulimit -c"]).output.split() == [
            str(1 << 20),
            str(1 << 10),
            "99",
            "0",
        ]


@pytest.mark.skipif(os.getuid() == 0, reason="the system does not hold root to the process limit")
def test_the_number_of_processes_is_limited(tmp_path: Path, isolation: Isolation) -> None:
    with Sandbox(tmp_path, Limits(processes=1)) as sandbox:
        assert run(sandbox, "true & wait").exit_code != 0


def test_the_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: Isolation) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("SAPWOOD_TEST_KEPT", "kept")
    with Sandbox(tmp_path, keep_env=["SAPWOOD_TEST_KEPT"]) as sandbox:
        output = run(sandbox, "env").output
        assert "sk-secret" not in output
        assert "SAPWOOD_TEST_KEPT=kept" in output
        assert f"HOME={sandbox.home}" in output


def test_with_isolation_our_processes_cannot_be_seen(sandbox: Sandbox, isolation: Isolation) -> None:
    if not isolation.blocks:
        pytest.skip("a process group hides nothing, and says so")
    assert run(sandbox, ["cat", f"/proc/{os.getpid()}/environ"]).exit_code != 0


def test_with_isolation_files_outside_are_read_only(sandbox: Sandbox, isolation: Isolation, tmp_path: Path) -> None:
    if not isolation.blocks:
        pytest.skip("a process group holds nothing back, and says so")
    done = run(sandbox, f"echo x > {tmp_path}/outside; echo y > inside; echo z > $TMPDIR/temporary && echo fine")
    assert not (tmp_path / "outside").exists()
    assert (sandbox.root / "inside").read_text() == "y\n"
    assert done.output.endswith("fine\n")


def connect(sandbox: Sandbox, port: int) -> Completed:
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 3); print('connected')"
    return run(sandbox, [sys.executable, "-c", code])


def test_the_network_is_blocked_or_said_to_be_open(tmp_path: Path, isolation: Isolation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with Sandbox(tmp_path) as closed, Sandbox(tmp_path, allow_net=True) as opened:
            assert closed.network == ("blocked" if isolation.blocks else "open")
            assert ("connected" in connect(closed, port).output) == (closed.network == "open")
            assert f"network: {closed.network}" in "\n".join(closed.describe())
            assert opened.network == "open"
            assert "connected" in connect(opened, port).output


def test_loopback_works_inside(sandbox: Sandbox, isolation: Isolation) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname());"
        "print('connected')"
    )
    assert run(sandbox, [sys.executable, "-c", code]).output == "connected\n"


def test_commands_run_side_by_side(sandbox: Sandbox) -> None:
    outputs: list[str] = []

    async def one(own: str, other: str) -> None:
        # each waits for the other's file, so one after the other would never end
        wait = f"touch {own}; while [ ! -e {other} ]; do sleep 0.01; done; echo met"
        outputs.append((await sandbox.run(wait, timeout=20)).output)

    async def go() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "a", "b")
            tasks.start_soon(one, "b", "a")

    anyio.run(go)
    assert outputs == ["met\n", "met\n"]


def test_the_temporary_home_is_removed(tmp_path: Path) -> None:
    started = time.time()
    with Sandbox(tmp_path) as sandbox:
        run(sandbox, "echo x > ~/file")
        assert (sandbox.home / "file").stat().st_mtime >= started - 2
    assert not sandbox.home.exists()
