"""Sub-agents: the same prefix, their own worktrees, one result."""

from __future__ import annotations

import pytest

from agents.events import BadSession
from agents.state import Status


@pytest.fixture
def family(upstream):
    """The parent spawns `tasks`; a child does what `deeds` says of its task: one call, then an answer."""

    def make(tasks, deeds, ending="done"):
        def script(body, headers):
            messages, child = body["messages"], headers["x-sapwood-session"].partition(".")[2]
            if child:
                task = next(
                    task for task in tasks if task in messages[-1 if messages[-1]["role"] == "user" else -3]["content"]
                )
                return upstream.say(f"I did {task}") if messages[-1]["role"] == "tool" else deeds[task]
            return upstream.say(ending) if messages[-1]["role"] == "tool" else upstream.use("spawn", tasks=list(tasks))

        upstream.script = script

    return make


def write(upstream, path, content):
    return upstream.use("write_file", path=path, content=content)


def told(upstream):
    """What the parent reads."""
    return [body for body in upstream.bodies if body["messages"][-1]["role"] == "tool"][-1]["messages"][-1]["content"]


def test_each_does_its_part_and_all_is_merged(run, upstream, family, repo):
    family(
        ["part a", "part b"],
        {"part a": write(upstream, "a.py", "A = 1\n"), "part b": write(upstream, "b.py", "B = 2\n")},
    )
    report = run(spawn=4, tests="test -f a.py -a -f b.py")
    assert (report.status, report.branches) == (Status.SOLVED, {"s1": "answered", "s2": "answered"})
    assert ((repo / "a.py").read_text(), (repo / "b.py").read_text()) == ("A = 1\n", "B = 2\n")
    assert "s1 (answered; its changes are in the files now): I did part a" in told(upstream)
    assert "a.py" in report.diff


def test_children_share_their_parents_prefix_exactly(run, upstream, family):
    family(["part a", "part b"], {"part a": write(upstream, "a.py", ""), "part b": write(upstream, "b.py", "")})
    run(spawn=2, tests="true")
    parent, *others = upstream.bodies
    children = [body for body in others if body["messages"][-1]["role"] == "user"]
    assert len(children) == 2
    for child in children:
        assert child["messages"][:-1] == parent["messages"]
        assert child["tools"] == parent["tools"]


def test_changes_that_do_not_fit_together_are_left_out_and_said(run, upstream, family, repo):
    edit = lambda new: upstream.use("edit_file", path="calc.py", old="a - b", new=new)  # noqa: E731
    family(["part a", "part b"], {"part a": edit("a + b"), "part b": edit("b + a")})
    assert run(spawn=2, tests="true").status is Status.SOLVED
    assert "a + b" in (repo / "calc.py").read_text()
    assert "s2 (answered; its changes did not fit and were left out" in told(upstream)


def test_they_have_no_children_of_their_own_and_are_counted(run, upstream, family):
    family(["part a"], {"part a": upstream.use("spawn", tasks=["more"])})
    run(spawn=1, tests="true")
    assert any("cannot spawn others" in str(body["messages"][-1]["content"]) for body in upstream.bodies)
    family(["part a", "part b"], {})
    run(spawn=1, tests="true")
    assert "At most 1 more" in told(upstream)


@pytest.mark.parametrize("tasks", [[], "all of it", [1], [" "], None])
def test_odd_tasks_are_an_error_for_the_model(run, upstream, tasks):
    upstream.turns = [upstream.use("spawn", tasks=tasks), upstream.say("done")]
    assert run(spawn=3, tests="true").status is Status.SOLVED
    assert "Nothing was run" in told(upstream)


def test_a_child_whose_model_fails_does_not_end_the_parent(run, upstream, family):
    family(["part a"], {"part a": upstream.refuse(400, "no")})
    report = run(spawn=1, tests="true")
    assert (report.status, report.branches) == (Status.SOLVED, {"s1": "model_failed"})
    assert "s1 (model_failed; it changed nothing)" in told(upstream)


def test_the_tool_is_there_only_where_it_was_asked_for(run, upstream):
    upstream.turns = [upstream.say("done")]
    run(tests="true")
    assert "spawn" not in [tool["function"]["name"] for tool in upstream.bodies[0]["tools"]]


def test_a_part_of_a_run_cannot_be_resumed_alone(run, upstream, family):
    family(["part a"], {"part a": write(upstream, "a.py", "")})
    report = run(spawn=1, tests="true")
    with pytest.raises(BadSession, match="part of a run"):
        run.resume(f"{report.session}.s1")
