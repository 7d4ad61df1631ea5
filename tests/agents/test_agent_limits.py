"""What ends a session that would go on for ever: budgets, circles, a full context."""

from __future__ import annotations

import threading

import anyio
import pytest

from agents.budget import Budget
from agents.hold import CacheHold
from agents.state import Status, Turn
from agents.stuck import circle
from tests.agents.conftest import PROMPT_TOKENS, Reply

LOOK = {"path": "calc.py"}


def looks(upstream, times, **arguments):
    upstream.turns = [upstream.use("read_file", **(arguments or LOOK)) for _ in range(times)]


def test_the_same_call_with_the_same_result_is_broken_twice_and_then_ended(run, upstream):
    looks(upstream, 20)
    report = run()
    assert (report.status, report.reason) == (
        Status.NOT_SOLVED,
        "the model goes round in circles: the same call gave the same result 4 times",
    )
    nudges = [message for message in upstream.bodies[-1]["messages"] if message["role"] == "user"][1:]
    assert len(upstream.bodies) == 12
    assert len(nudges) == 2
    assert all("circles" in nudge["content"] for nudge in nudges)
    assert upstream.extended


def test_a_call_that_fails_three_times_is_a_circle(run, upstream):
    upstream.turns = [*(upstream.use("read_file", path="gone.py") for _ in range(3)), upstream.say("done")]
    run(tests="true")
    said = upstream.bodies[3]["messages"][-1]
    assert said["role"] == "user"
    assert "failed 3 times" in said["content"]


def test_two_calls_in_turn_are_a_circle(run, upstream):
    upstream.turns = [
        upstream.use("read_file", path=path) for _ in range(3) for path in ("calc.py", "test_calc.py")
    ] + [upstream.say("done")]
    run(tests="true")
    assert "take turns" in upstream.bodies[6]["messages"][-1]["content"]


def test_looking_at_many_things_is_no_circle(run, upstream):
    upstream.turns = [upstream.use("read_file", path="calc.py", start_line=line) for line in (1, 2, 1, 2, 3, 1)]
    upstream.turns.append(upstream.say("done"))
    run(tests="true")
    assert circle(run.session(report_id(run)).state) is None
    assert len(upstream.bodies) == 7


def report_id(run):
    return next((run.repo / ".sapwood" / "sessions").glob("*.jsonl")).stem


def test_tokens_are_a_budget_over_all_branches(run, upstream):
    upstream.script = lambda body, headers: upstream.use("read_file", path="calc.py", start_line=len(body["messages"]))
    report = run(max_tokens=60, branches=3, tests="false")
    assert report.status is Status.BUDGET
    assert len(upstream.bodies) <= 4 + 2  # 17 tokens each; those under way when it is used up may end


def test_what_the_server_says_was_cached_costs_nothing():
    budget = Budget(tokens=50)
    budget.spend(Turn(1, prompt=100, cached=90, completion=7, ttft=0, seconds=1))
    assert budget.spent == 17
    budget.spend(Turn(2, prompt=30, cached=None, completion=None, ttft=0, seconds=1))
    assert budget.spent == 47


def test_time_that_is_used_up_ends_a_turn_that_hangs(run, upstream):
    upstream.turns = [Reply([{"content": "…"}], gate=threading.Event())]
    report = run(max_seconds=0.3)
    assert (report.status, report.status.exit_code) == (Status.BUDGET, 4)
    assert upstream.closed.wait(5)
    upstream.turns = [upstream.say("done")]
    assert run.resume(report.session, tests="true").status is not Status.BUDGET


@pytest.mark.parametrize("kept", [True, False])
def test_a_full_context_is_summarised_behind_the_whole_history(run, upstream, kept):
    """The request for the summary is the history and one message; then the conversation is its beginning again."""
    looks_at = [upstream.use("read_file", path="calc.py", start_line=line) for line in (1, 2, 3)]
    upstream.turns = [looks_at[0], upstream.say(" I read calc.py. "), *looks_at[1:], upstream.say("done")]
    if not kept:
        upstream.turns.pop(1)
    context = (PROMPT_TOKENS + 7) * 10 // 8 if kept else 1_000_000
    report = run(context=context, tests="true")
    bodies = [body["messages"] for body in upstream.bodies]
    if not kept:
        assert report.status is Status.SOLVED
        assert upstream.extended
        return
    assert report.status is Status.SOLVED
    assert upstream.bodies[1]["tool_choice"] == "none"
    assert bodies[1][: len(bodies[0])] == bodies[0]
    assert [message["role"] for message in bodies[1][len(bodies[0]) :]] == ["assistant", "tool", "user"]
    assert bodies[2][:2] == bodies[0]
    assert bodies[2][2] == {"role": "assistant", "content": "I read calc.py."}
    assert [message["role"] for message in bodies[2][3:]] == ["user"]
    assert upstream.bodies[2]["tools"] == upstream.bodies[0]["tools"]
    assert upstream.sessions[1:3] == [report.session, f"{report.session}.c1"]
    assert bodies[4][: len(bodies[3])] == bodies[3], "a summary that gains nothing is not asked for"
    assert run.session(report.session).state.compactions == 1


def test_a_model_without_a_summary_ends_the_session(run, upstream):
    upstream.turns = [upstream.use("read_file", **LOOK), upstream.say("")]
    report = run(context=50)
    assert (report.status, len(upstream.bodies)) == (Status.BUDGET, 2)


class Api:
    def __init__(self):
        self.told = []

    async def retain(self, session, seconds):
        self.told.append((session, seconds))

    async def release(self, session):
        self.told.append((session, None))


def test_a_slow_tool_is_announced_with_what_it_took_before():
    api = Api()
    hold = CacheHold(api)

    async def talk():
        async with hold.during("s", "quick"):
            assert hold.expected("quick") == 0
        hold.took("slow", 10)
        async with hold.during("s", "slow"):
            assert api.told == [("s", 15.0)]
        await hold.release("s")
        await hold.release("s")
        async with hold.during("s", "quick"):
            pass

    anyio.run(talk)
    assert api.told == [("s", 15.0), ("s", None)]
