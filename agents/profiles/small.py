"""For models that cannot plan: a guided loop in which the model only writes what nobody else can, the
function body.

    tests (agent) → suspect → [ run_tests → evidence → replace_function → tests (agent) ]
                                                       ↑________ on failure ________|

The tests run once before the first turn, because they decide what the frozen tool list says: the one tool
that edits takes only `code`, whose pattern is the opening of the suspect's definition. A constrained engine
forces that opening and leaves the body free; which tests run is set by the agent.
"""

from __future__ import annotations

from typing import Any

from agents.cut import cut
from agents.profiles.base import (
    Ask,
    CannotOpen,
    Fork,
    Opening,
    Rest,
    Say,
    Step,
    Task,
    Verify,
    tests_call,
)
from agents.profiles.suspect import Suspect, suspects
from agents.prompts import prompt
from agents.state import State, Status
from agents.toolbox import Toolbox
from agents.verdict import Failure, Verdict, failures_of, judge

ROUNDS = 3
"""Corrections a session may try."""
SAMPLING = {"temperature": 0.8, "top_p": 0.95, "max_tokens": 256}
OUTPUT_LIMIT = 600
FAILURE_LIMIT = 300


class Small:
    name = "small"

    async def open(self, task: Task, toolbox: Toolbox) -> Opening:
        tests = tests_call(task.tests, task.repo)
        result = await toolbox.call(tests["tool"], tests["arguments"])
        if judge(result) is Verdict.PASSED:
            raise CannotOpen(Status.SOLVED, "the tests pass already; nothing was changed")
        failures = failures_of(result.data)
        accused = suspects(task.repo, failures)
        if not accused:
            why = cut(" ".join(result.text.split()), 200)
            raise CannotOpen(Status.NOT_SOLVED, f"no function to suspect (try --profile full); tests: {why}")
        suspect = accused[0]
        return Opening(
            messages=[
                {"role": "system", "content": prompt("small_system")},
                {"role": "user", "content": prompt("small_task", task=task.prompt)},
            ],
            tools=[_replace_tool(suspect), _tool("run_tests", "Run the tests.", {})],
            sampling=dict(SAMPLING),
            output_limit=OUTPUT_LIMIT,
            tests=tests,
            bound={"run_tests": tests["arguments"]},
            notes={
                "branching": task.branching,
                "evidence": prompt("small_evidence", source=suspect.source, failure=_told(failures)),
            },
        )

    def next(self, state: State) -> Step:
        if not state.turns:
            return Ask("run_tests")
        if sum(message["role"] == "user" for message in state.messages) == 1:
            return Say(state.notes["evidence"])
        if state.notes["branching"] and state.parent is None:
            return Fork()
        if state.messages[-1]["role"] == "user":
            return self._attempt(state)
        return self._judge(state)

    def _attempt(self, state: State) -> Step:
        shared = state.parent is None  # then the turn that ran the tests is one of the session's own
        if state.turns_used >= ROUNDS + shared:
            return Rest(Status.NOT_SOLVED, f"the tests still fail after {ROUNDS} corrections")
        return Ask("replace_function")

    def _judge(self, state: State) -> Step:
        """A correction was made, or refused by the tool, or never arrived. Only the first is worth a test run."""
        if state.messages[-1]["role"] == "assistant":
            return Say(prompt("small_refused", reason="there was no function in the reply."))
        if state.refused:
            return Say(prompt("small_refused", reason=cut(state.messages[-1]["content"], FAILURE_LIMIT)))
        if state.verdict is None:
            return Verify()
        if state.verdict["verdict"] == Verdict.PASSED:
            return Rest(Status.SOLVED, "the tests pass")
        return Say(prompt("small_again", failure=_told(failures_of(state.verdict["data"]))))


def _told(failures: list[Failure]) -> str:
    """The first failure, short enough for a small model to attend to."""
    return cut(failures[0].message.strip(), FAILURE_LIMIT) if failures else "(no test could run)"


def _replace_tool(suspect: Suspect) -> dict[str, Any]:
    code = {"type": "string", "pattern": suspect.opening}
    return _tool("replace_function", f"Replace the function {suspect.name}.", {"code": code})


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if properties:
        parameters["required"] = list(properties)
    parameters["additionalProperties"] = False
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }
