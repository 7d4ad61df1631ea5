"""A recorded session of edits, as token ids: a file is shown, and each answer writes all of it back with a few changes.

What an agent with a good model produces all day. A model of 135M parameters doesn't, so its answers are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from benchmarks import corpus
from benchmarks.scenario import TextTokenizer, cut

CHANGED = 12
"""One of so many lines is another after each turn."""
OUTPUT_TOKENS = 120


@dataclass(frozen=True)
class Edit:
    """One turn: all that was said before the answer, and the answer."""

    prompt: list[int]
    answer: list[int]


def session(seed: int, file_tokens: int, turns: int, texts: TextTokenizer) -> Iterator[Edit]:
    """Each turn's prompt holds the former ones with their answers."""
    source = Random(f"edits/{seed}")
    lines = cut(corpus.code(source), file_tokens, texts).splitlines()
    said = texts.encode(_shown(lines, source))
    for _ in range(turns):
        lines = edited(lines, source)
        answer = texts.encode("\n".join(lines) + "\n")
        yield Edit(said, answer)
        output = cut(corpus.pytest_output(source), OUTPUT_TOKENS, texts)
        said = [*said, *answer, *texts.encode(f"```\n\nThe tests say:\n\n{output}\n\nThe file:\n\n```python\n")]


def edited(lines: list[str], source: Random) -> list[str]:
    """At least one line is exchanged for a line of other code."""
    code = (line for function in corpus.code(source) for line in function.splitlines() if line.strip())
    chosen = set(source.sample(range(len(lines)), max(1, len(lines) // CHANGED)))
    return [next(code) if number in chosen else line for number, line in enumerate(lines)]


def _shown(lines: list[str], source: Random) -> str:
    task = next(corpus.tasks(source))
    file = "\n".join(lines)
    return f"The file:\n\n```python\n{file}\n```\n\n{task} Write the whole file.\n\nThe file:\n\n```python\n"
