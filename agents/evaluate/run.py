"""Run an agent on each task of a set and keep what came of it."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from agents.evaluate.place import complaint, lay_out
from agents.evaluate.results import Book, Result
from agents.evaluate.tasks import Task
from agents.model import ChatModel, Unreachable
from agents.options import Options
from agents.report import Report
from agents.run import solve
from agents.state import Status
from agents.view import Json
from tools.sandbox.scratch import Scratch

SEEDS_APART = 1000
"""Between the seeds of two attempts: more than there can be branches."""


class Unanswered(Exception):
    """The endpoint is gone: what is finished is kept, the rest can be run later."""


@dataclass(frozen=True)
class Attempt:
    task: Task
    number: int


def attempts(tasks: Sequence[Task], repeat: int) -> list[Attempt]:
    """All tasks once, then all again: a run that is broken off has seen as many tasks as possible."""
    return [Attempt(task, number) for number in range(1, repeat + 1) for task in tasks]


async def run(options: Options, wanted: Sequence[Attempt], book: Book, say: Callable[[Result], None]) -> int:
    """Each attempt that the book lacks, one after the other. Attempts in which the model failed are told, but not
    kept: the next run makes them again. How many those are. Raises Unanswered.
    """
    failed = 0
    for attempt in wanted:
        if book.has(attempt.task.name, attempt.number):
            continue
        result = await _one(options, attempt, book.folder)
        say(result)
        if result.status != Status.MODEL_FAILED:
            book.add(result)
            continue
        failed += 1
        await _check_that_it_answers(options)
    return failed


async def _one(options: Options, attempt: Attempt, out: Path) -> Result:
    scratch = Scratch("eval")
    try:
        return await _measured(options, attempt, scratch.path, out)
    finally:
        scratch.close()


async def _measured(options: Options, attempt: Attempt, scratch: Path, out: Path) -> Result:
    task = attempt.task
    place = lay_out(task, scratch)
    seed = None if options.seed is None else options.seed + SEEDS_APART * (attempt.number - 1)
    began = time.monotonic()
    ended = await solve(replace(options, repo=place, prompt=task.text, seed=seed), Json(Console(file=io.StringIO())))
    seconds = time.monotonic() - began
    sessions = place / ".sapwood" / "sessions"
    if sessions.is_dir():
        shutil.copytree(sessions, out / "sessions", dirs_exist_ok=True)
    if ended.status is Status.MODEL_FAILED:
        return _result(attempt, ended, seconds, ended.reason)
    return _result(attempt, ended, seconds, await complaint(task, place, scratch))


def _result(attempt: Attempt, ended: Report, seconds: float, complaint: str) -> Result:
    by_turn = ended.as_json()["turns"]
    return Result(
        task=attempt.task.name,
        attempt=attempt.number,
        solved=not complaint,
        why=complaint or ended.reason,
        status=ended.status.value,
        turns=len(by_turn),
        **ended.totals,
        seconds=round(seconds, 2),
        session=ended.session,
        by_turn=by_turn,
    )


async def _check_that_it_answers(options: Options) -> None:
    async with ChatModel(options.base_url, options.api_key) as model:
        try:
            await model.models()
        except Unreachable as error:
            raise Unanswered(str(error)) from error
        except Exception:  # it answers, whatever it says
            return
