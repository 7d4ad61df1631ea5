"""A session that a person talks to."""

from __future__ import annotations

import io
import json
import os
import threading

import anyio
import pytest
from rich.console import Console

from agents.conversation import STOPPED, Conversation
from agents.events import BadSession
from agents.options import Options
from agents.state import Status
from agents.view import Quiet, StreamJson
from tests.agents.conftest import Reply


@pytest.fixture
def talk(repo, upstream):
    """Runs `script(conversation)` in a conversation."""

    def run(script, view=None, **options):
        async def main():
            given = Options(repo=repo, base_url=upstream.url, **options)
            async with Conversation(given, view or Quiet()) as conversation:
                await script(conversation)

        anyio.run(main)

    return run


def test_an_answer_is_not_judged_and_work_is(talk, upstream):
    upstream.turns = [
        upstream.say("It adds."),
        upstream.use("edit_file", path="calc.py", old="a - b", new="a + b"),
        upstream.say("Repaired."),
    ]

    async def script(conversation):
        assert await conversation.say("What does add do?") is Status.ANSWERED
        assert await conversation.say("Repair it.") is Status.SOLVED
        assert [message["role"] for message in conversation.state.messages[:4]] == [
            "system",
            "user",
            "assistant",
            "user",
        ]

    talk(script)
    assert upstream.extended
    assert upstream.bodies[1]["messages"][-1]["content"] == "Repair it."


def test_a_stopped_turn_goes_on_with_the_next_word(talk, upstream):
    upstream.turns = [Reply([{"content": "hm"}], gate=threading.Event()), upstream.say("Fine.")]

    async def script(conversation):
        async with anyio.create_task_group() as group:

            async def first():
                await conversation.say("Do it.")

            group.start_soon(first)
            await anyio.to_thread.run_sync(upstream.asked.wait, 10)
            group.cancel_scope.cancel()
        assert conversation.state.status is Status.INTERRUPTED
        assert await conversation.say("Rather not.") is Status.ANSWERED

    talk(script)
    assert upstream.closed.wait(5)
    assert [message["content"] for message in upstream.bodies[1]["messages"][2:]] == ["Rather not."]


def test_a_stopped_tool_is_told_to_the_model_and_not_run_again(talk, upstream, repo):
    os.mkfifo(repo / "pipe")
    upstream.turns = [
        upstream.use("run_command", command="echo x >> ran; echo > pipe; sleep 60"),
        upstream.say("Fine."),
    ]

    async def script(conversation):
        async with anyio.create_task_group() as group:

            async def first():
                await conversation.say("Run it.")

            group.start_soon(first)
            await anyio.to_thread.run_sync((repo / "pipe").read_text)
            group.cancel_scope.cancel()
        await conversation.say("Enough.")

    talk(script)
    assert [message["content"] for message in upstream.bodies[1]["messages"][-2:]] == [STOPPED, "Enough."]
    assert (repo / "ran").read_text() == "x\n"


def test_a_fork_goes_on_beside_the_session(talk, upstream):
    upstream.turns = [upstream.say("one"), upstream.say("two"), upstream.say("three")]

    async def script(conversation):
        await conversation.say("first")
        told = len(conversation.state.messages)
        origin = conversation.state.id
        await conversation.say("second")
        identity = await conversation.fork(4)  # open, ask, reply, status
        assert identity == f"{origin}.f1"
        assert len(conversation.state.messages) == told
        await conversation.say("other")

    talk(script)
    assert upstream.bodies[2]["messages"][:-1] == upstream.bodies[1]["messages"][:-1]
    assert upstream.bodies[2]["messages"][-1]["content"] == "other"


def test_a_fork_outlives_the_process_and_can_be_resumed(talk, run, upstream):
    upstream.turns = [upstream.say("done"), upstream.say("again"), upstream.say("and again")]
    report = run(tests="true")
    forked = run(None, fork=report.session, tests="true")
    assert forked.session == f"{report.session}.f1"
    assert run(None, fork=f"{report.session}@2", tests="true").session == f"{report.session}.f2"
    for wrong in ("gone", f"{report.session}@99", f"{report.session}@x", f"{forked.session}@1"):
        with pytest.raises(BadSession):
            run(None, fork=wrong)


def test_a_summary_on_demand(talk, upstream):
    upstream.turns = [upstream.say("long"), upstream.say("a summary"), upstream.say("ok")]

    async def script(conversation):
        await conversation.say("first")
        assert await conversation.compact() == "3 messages are 4 now"
        await conversation.say("second")

    talk(script)
    told = upstream.bodies[2]["messages"]
    assert told[:2] == upstream.bodies[0]["messages"]
    assert [message["role"] for message in told[2:]] == ["assistant", "user", "user"]


def test_another_model_from_here_on(talk, upstream):
    upstream.turns = [upstream.say("one"), upstream.say("two")]

    async def script(conversation):
        await conversation.say("first")
        assert await conversation.models() == ["scripted"]
        conversation.use_model("other")
        await conversation.say("second")

    talk(script)
    assert [body["model"] for body in upstream.bodies] == ["scripted", "other"]


def test_every_event_is_a_line_of_json(talk, upstream):
    out = io.StringIO()
    upstream.turns = [upstream.use("read_file", path="calc.py"), upstream.say("done")]

    async def script(conversation):
        await conversation.say("go")

    talk(script, view=StreamJson(Console(file=out)), tests="true")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    kinds = [line["type"] for line in lines if line["type"] != "delta"]
    assert kinds == ["turn", "call", "tool", "turn"]
    assert "".join(line["text"] for line in lines if line.get("part") == "text") == "done"
    assert "".join(line["text"] for line in lines if line.get("part") == "arguments") == '{"path" : "calc.py"}'


def test_what_was_reused_is_a_line_for_each_turn(talk, upstream):
    upstream.turns = [upstream.say("one")]

    async def script(conversation):
        assert await conversation.why() == []
        await conversation.say("first")
        lines = await conversation.why()
        assert "90 of 100 reused, 10 computed" in lines[0]
        assert "no Sapwood gateway" in lines[-1]

    talk(script)
