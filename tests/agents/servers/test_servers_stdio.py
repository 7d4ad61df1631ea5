"""Servers as child processes: what they get, how they end, and that nobody waits for the dead."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from agents.servers.config import ServerConfig, Stdio
from agents.servers.supervisor import Patience
from agents.servers.toolbox import ServerNeeded
from agents.toolbox import Fault
from tests.agents.servers.conftest import names, plain


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def echo(servers, name="p__echo", **arguments):
    return json.loads((await servers.call(name, arguments)).text)


def test_a_server_gets_its_folder_and_only_a_part_of_our_environment(run, tmp_path, told, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    pids = []

    async def test(servers):
        assert names(servers) == ["p__deaf", "p__die", "p__echo", "p__garble", "p__hang", "p__long", "p__my_own"]
        said = await echo(servers, text="héllo \ud800")
        assert said["text"] == "héllo ?"
        assert said["cwd"] == str(tmp_path)
        assert said["env"]["GIVEN"] == "yes"
        assert said["env"]["LC_ALL"] == "C.UTF-8"
        assert "OPENAI_API_KEY" not in said["env"]
        pids.append(said["pid"])

    run(test, plain(tools="my.own"))
    assert told.notes == ["server p: 7 tools, 1.1 kB of definitions"]
    assert gone(pids[0])


def test_it_writes_nothing_to_our_terminal(run, capfd):
    async def test(servers):
        assert (await servers.call("p__garble", {})).is_error

    run(test, plain())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("config", "trouble"),
    [
        (plain(start="fails"), "it ended with status 1; it wrote: no licence found"),
        (plain(start="hangs", start_seconds=0.5), "it gave no answer within 0.5 s"),
        (ServerConfig("p", Stdio("no-such-program")), "there is no program no-such-program"),
        (ServerConfig("p", Stdio("/")), "/ cannot be run: Permission denied"),
        (ServerConfig("p", Stdio("true", cwd=Path("/no/folder"))), "its cwd /no/folder is not a folder"),
        (ServerConfig("p", Stdio("cat")), "it answers: Method not found"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_server_that_cannot_be_started_is_a_note(run, told, config, trouble):
    async def test(servers):
        assert names(servers) == ["q__deaf", "q__die", "q__echo", "q__garble", "q__hang", "q__long"]
        result = await servers.call("p__echo", {})
        assert result.is_error
        assert result.fault is None
        assert result.text.startswith(f"The server p is not there: {trouble}")

    run(test, config, plain("q"))
    assert told.notes[0].startswith(f"server p cannot be started: {trouble}")
    assert told.notes[0].endswith(". The session goes on without its tools.")


def test_unless_it_is_required(run):
    with pytest.raises(ServerNeeded, match="server p is required and cannot be started: it ended with status 1; it wr"):
        run(None, plain(start="fails", required=True))


def test_a_server_that_takes_only_the_handshake_of_old(run):
    async def test(servers):
        assert await echo(servers)

    run(test, plain(start="strict"))


@pytest.mark.parametrize("way", ["die", "deaf", "kill"])
def test_a_call_does_not_wait_for_the_dead_and_the_next_finds_it_alive(run, told, way, tmp_path):
    mark = tmp_path / "mark"

    async def test(servers):
        before = names(servers), (await echo(servers))["pid"]
        results = []

        async def wait():
            results.append(await servers.call("p__hang" if way == "kill" else f"p__{way}", {}))

        with anyio.fail_after(5):  # a call may take 20 s
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                if way == "kill":
                    await anyio.wait_all_tasks_blocked()
                    os.kill(before[1], signal.SIGKILL)
        assert results[0].is_error
        assert "The server p went away in the middle of this call" in results[0].text
        assert (await echo(servers))["pid"] != before[1]
        assert names(servers) == before[0]
        await told.until(lambda: told.notes[-1] == "server p is up")

    run(test, plain(mark=mark))
    assert way != "deaf" or gone(int(mark.read_text()))
    fate = {
        "die": "ended with status 3; it wrote: last words",
        "deaf": "ended with status 4; it wrote: a greeting",
        "kill": "was killed by signal 9; it wrote: a greeting",
    }
    assert f"server p is gone: it {fate[way]}. It is started again." in told.notes


def test_what_it_sends_is_bounded_and_what_cannot_be_read_is_an_error(run, monkeypatch):
    monkeypatch.setattr("agents.servers.stdio.LONGEST_LINE", 100_000)

    async def test(servers):
        with anyio.fail_after(5):
            assert (await servers.call("p__garble", {})).text == "garble failed: the server's answer cannot be read"
            assert "went away" in (await servers.call("p__long", {"text": "200000"})).text
        assert await echo(servers)

    run(test, plain())


def test_arguments_that_no_server_can_get(run):
    async def test(servers):
        deep: dict = {}
        for _ in range(200):
            deep = {"a": deep}
        for arguments in (deep, {"n": float("nan")}):
            result = await servers.call("p__echo", arguments)
            assert result.is_error
            assert result.text.startswith("These arguments cannot be sent: ")
        assert await echo(servers)

    run(test, plain())


def test_a_call_that_takes_too_long_is_cancelled_and_so_is_one_that_we_stop(run, tmp_path):
    mark = tmp_path / "mark"

    async def marked():
        with anyio.fail_after(10):
            while not mark.exists() or not mark.read_text():  # noqa: ASYNC110 (another process writes it)
                await anyio.sleep(0.01)
        said = json.loads(mark.read_text())["reason"]
        mark.unlink()
        return said

    async def test(servers):
        result = await servers.call("p__hang", {})
        assert result.text == "hang gave no answer within 0.2 s and was told to stop."
        assert result.fault is Fault.TIMEOUT
        assert await marked() == "timed out after 0.2s"
        with anyio.move_on_after(0.05):
            await servers.call("p__hang", {})
        assert await marked() == "caller cancelled"

    run(test, plain(mark=mark, call_seconds=0.2))


def test_a_server_that_does_not_come_back_is_left_alone_until_it_is_called(run, told, tmp_path):
    lives = tmp_path / "lives"

    async def test(servers):
        await servers.call("p__die", {})
        await told.until(lambda: told.notes[-1].endswith("It is started when it is called."))
        tried = len(lives.read_text())
        result = await servers.call("p__echo", {})
        assert result.text.startswith("The server p is not there: it ended with status 1; it wrote: no licence found")
        assert len(lives.read_text()) > tried

    run(test, plain(lives=lives, fails_from=2), patience=Patience(first=0.01, tries=3))


def test_a_changed_list_after_a_restart_is_news_and_its_tools_can_be_called(run, told, tmp_path):
    async def test(servers):
        before = json.dumps(servers.specs())
        assert "p__life1" in names(servers)
        await servers.call("p__die", {})
        assert (await servers.call("p__life1", {})).text == "The server p has no tool life1 any more. Nothing was run."
        assert not (await servers.call("p__life2", {})).is_error
        assert json.dumps(servers.specs()) == before

    run(test, plain(lives=tmp_path / "lives"))
    (news,) = told.news
    assert [line[:17] for line in news.splitlines()[1:]] == ["- new: p__life2: ", "- gone: p__life1"]


def test_a_server_that_does_not_want_to_end_is_ended(run, monkeypatch, tmp_path):
    monkeypatch.setattr("agents.servers.stdio.GRACE", 0.3)
    mark, pids = tmp_path / "mark", []

    async def test(servers):
        pids.append((await echo(servers))["pid"])

    run(test, plain(end="never", mark=mark))
    assert mark.read_text() == "my input was closed"
    assert gone(pids[0])


def test_a_slow_start_is_told(run, told, monkeypatch):
    monkeypatch.setattr("agents.servers.toolbox.SLOW_SECONDS", 0.01)

    async def test(servers):
        assert await echo(servers)

    run(test, plain())
    assert told.notes[0] == "waiting for server p, 20 s at most"


def test_alike_names_of_two_servers(run):
    async def test(servers):
        echoes = [name for name in names(servers) if "echo" in name]
        assert len(echoes) == 2
        assert echoes[0] == "a_b__echo"
        assert len({(await echo(servers, name))["pid"] for name in echoes}) == 2

    run(test, plain("a_b"), plain("a.b"))
