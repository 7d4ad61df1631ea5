"""The task set itself: what is broken is broken, what solves it solves it, and nothing else may change."""

from __future__ import annotations

import shutil

import anyio
import pytest

from agents.evaluate.place import complaint, lay_out, strays
from agents.evaluate.tasks import OURS, BadTasks, load

TASKS = {task.name: task for task in load(OURS)}


def solve(task, place):
    for path in task.may_change:
        shutil.copyfile(task.repo.parent / "solution" / path, place / path)


def verdict(task, place, scratch):
    scratch.mkdir()
    return anyio.run(complaint, task, place, scratch)


def skip_without_its_programs(task):
    if task.missing:
        pytest.skip(f"no {', '.join(task.missing)}")


def test_there_are_24_and_no_two_alike():
    assert len(TASKS) == 24
    assert len({task.title for task in TASKS.values()}) == 24
    assert len({task.prompt for task in TASKS.values()}) == 24


@pytest.mark.parametrize("name", TASKS)
def test_the_solution_is_exactly_what_may_change(name):
    task = TASKS[name]
    folder = task.repo.parent / "solution"
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert files == sorted(task.may_change)
    assert all((folder / path).read_bytes() != (task.repo / path).read_bytes() for path in files)


def check(task, tmp_path):
    place = lay_out(task, tmp_path)
    assert "of " in verdict(task, place, tmp_path / "before")
    solve(task, place)
    assert verdict(task, place, tmp_path / "after") == ""


@pytest.mark.parametrize("name", ["flaky_fixture", "c_logic"])
def test_it_fails_before_and_passes_after(name, tmp_path, bare_pytest):
    skip_without_its_programs(TASKS[name])
    check(TASKS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_each_fails_before_and_passes_after(name, tmp_path, bare_pytest):
    skip_without_its_programs(TASKS[name])
    check(TASKS[name], tmp_path)


def test_whatever_else_changes_is_named(tmp_path):
    task = TASKS["two_files"]
    place = lay_out(task, tmp_path)
    solve(task, place)
    (place / "__pycache__").mkdir()
    assert strays(task, place) == []
    (place / "tests" / "test_warehouse.py").write_text("def test_nothing():\n    pass\n")
    (place / "conftest.py").touch()
    (place / "warehouse" / "__init__.py").unlink()
    (place / "away").symlink_to("/etc")
    expected = ["away", "conftest.py", "tests/test_warehouse.py", "warehouse/__init__.py"]
    assert strays(task, place) == expected
    assert verdict(task, place, tmp_path / "fresh").endswith(", ".join(expected))


def test_tests_that_are_left_out_are_not_solved(tmp_path, bare_pytest):
    task = TASKS["flaky_fixture"]  # its conftest.py may be changed, and could leave a test out
    place = lay_out(task, tmp_path)
    text = (place / "conftest.py").read_text()
    (place / "conftest.py").write_text(text + "\n\ndef pytest_collection_modifyitems(items):\n    del items[3:]\n")
    assert verdict(task, place, tmp_path / "fresh").startswith("of 4 tests 3 pass")


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("title = ", "cannot be read"),
        ("", "may_change must be a list"),
        ('may_change = ["../x"]', "inside the repository"),
        ('may_change = ["x"]', "title must be a text"),
        ('may_change = ["x"]\ntitle = "t"\nprompt = "p"\ntests = true', "tests must be a number"),
        ("color = 1", "no field of a task"),
    ],
)
def test_a_bad_task_is_named(tmp_path, toml, words):
    (tmp_path / "bad" / "repo").mkdir(parents=True)
    (tmp_path / "bad" / "task.toml").write_text(toml)
    with pytest.raises(BadTasks, match=words) as caught:
        load(tmp_path)
    assert "bad" in str(caught.value)


def test_no_tasks_and_unknown_names(tmp_path):
    with pytest.raises(BadTasks, match="holds no tasks"):
        load(tmp_path)
    with pytest.raises(BadTasks, match="no task nowhere"):
        load(OURS, ["nowhere", "regex"])
    assert [task.name for task in load(OURS, ["regex"])] == ["regex"]
