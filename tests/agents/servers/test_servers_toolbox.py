"""Our own tools and other people's as one toolbox, and a session that is taken up again."""

from __future__ import annotations

import json

import anyio
import pytest

from agents.servers.toolbox import Merged, open_servers
from agents.toolbox import Fault, ToolResult
from tests.agents.servers.conftest import plain


class Own:
    def __init__(self, *names: str) -> None:
        self.names = names

    def specs(self):
        return [{"type": "function", "function": {"name": name, "description": "ours"}} for name in self.names]

    async def call(self, name, arguments):
        return ToolResult(f"our {name}")


def test_both_in_one_list_and_ours_first_by_right(run):
    async def test(servers):
        merged = Merged(Own("read_file", "p__die", "zap"), servers)
        specs = [spec["function"] for spec in merged.specs()]
        assert [spec["name"] for spec in specs] == [
            *("p__deaf", "p__die", "p__echo", "p__garble", "p__hang", "p__long", "read_file", "zap")
        ]
        assert specs[1]["description"] == "ours"
        assert (await merged.call("zap", {})).text == "our zap"
        assert (await merged.call("p__die", {})).text == "our p__die"
        assert json.loads((await merged.call("p__echo", {"text": "x"})).text)["text"] == "x"
        unknown = await merged.call("p__nothing", {})
        assert unknown.fault is Fault.UNKNOWN
        assert "p__long, read_file, zap" in unknown.text

    run(test, plain())


def test_a_server_that_comes_late_is_found_by_a_session_that_knows_it(run, told, tmp_path):
    """The session was begun when the server was up; now it is down at first."""
    gate = tmp_path / "gate"

    async def test(servers):
        assert servers.specs() == []
        gate.touch()
        answer = json.loads((await Merged(Own(), servers).call("p__echo", {})).text)
        assert answer["first"] == "server/discover"  # what a dead server did not understand says nothing of a live one
        assert servers.specs() == []

    run(test, plain(needs=gate))
    assert len(told.news) == 1
    assert "- new: p__echo: " in told.news[0]


def test_no_servers_cost_nothing(run, told):
    async def test(servers):
        assert servers.specs() == []

    run(test)
    assert told.notes == []


def test_what_fails_inside_comes_out_as_it_was(told, tmp_path):
    async def main():
        async with open_servers([plain()], tmp_path, progress=told.advance, news=told.tell, note=told.note):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        anyio.run(main)


def test_being_cancelled_ends_the_servers(told, tmp_path):
    async def main():
        with anyio.move_on_after(0.2) as scope:
            async with open_servers(
                [plain(start="hangs")], tmp_path, progress=told.advance, news=told.tell, note=told.note
            ):
                raise AssertionError("it never starts")
        assert scope.cancelled_caught

    anyio.run(main)
