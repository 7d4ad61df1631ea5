"""For models that can plan: every tool, free choice, done when it says so and the tests agree."""

from __future__ import annotations

from agents.execute import REPEATABLE
from agents.facts import files_of
from agents.profiles.base import Ask, Fork, Opening, Rest, Say, Step, Task, Verify, tests_call
from agents.prompts import prompt
from agents.state import State, Status
from agents.toolbox import Toolbox
from agents.verdict import Verdict

MAX_REJECTIONS = 3
"""Times the model may say "done" while the tests fail."""
OUTPUT_LIMIT = 12_000
_LOOKS = REPEATABLE - {"run_tests"}
"""Tools after which there is nothing for tests to judge."""


class Full:
    name = "full"

    async def open(self, task: Task, toolbox: Toolbox) -> Opening:
        facts = {
            "task": task.prompt,
            "name": task.repo.name,
            "tests": task.tests or "pytest",
            "files": "\n".join(files_of(task.repo)),
        }
        return Opening(
            messages=[
                {"role": "system", "content": prompt("full_system")},
                {"role": "user", "content": prompt("full_task", **facts)},
            ],
            tools=toolbox.specs(),
            sampling={},
            output_limit=OUTPUT_LIMIT,
            tests=tests_call(task.tests, task.repo),
            notes={"branching": task.branching, "interactive": task.interactive},
        )

    def next(self, state: State) -> Step:
        if state.messages[-1]["role"] == "assistant":
            return self._finished(state)
        if state.notes["branching"] and state.parent is None:
            # What branches share ends with a run of the tests: it changes nothing, so any branch can start
            # from it.
            pytest = state.opened["tests"]["tool"] == "run_tests"
            return Ask("run_tests") if pytest and not state.turns else Fork()
        return Ask()

    def _finished(self, state: State) -> Step:
        """The model answered without a call."""
        if state.finish_reason == "length":
            return Say(prompt("full_cut"))
        if state.notes.get("interactive") and not _acted(state):
            return Rest(Status.ANSWERED, "answered")
        if state.verdict is None:
            return Verify()
        if state.verdict["verdict"] == Verdict.PASSED:
            return Rest(Status.SOLVED, "the tests pass")
        if state.verdict["verdict"] == Verdict.ABSENT:
            return Rest(Status.UNVERIFIED, "the model says done, but there are no tests to verify it")
        if state.rejections >= MAX_REJECTIONS:
            return Rest(Status.NOT_SOLVED, f"the tests still fail after {state.rejections} attempts")
        return Say(prompt("full_rejected", output=state.verdict["text"]))


def _acted(state: State) -> bool:
    """Whether something but looking was done since a person spoke last."""
    said = state.messages[state.task_at + 1 :]
    return any(call["function"]["name"] not in _LOOKS for message in said for call in message.get("tool_calls", ()))
