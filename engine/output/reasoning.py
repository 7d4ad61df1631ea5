"""What a model thinks before it answers, told apart from the answer.

Reasoning stands in front of everything else, between two marks; a chat template may have written the first of them
into the prompt, so that the text starts within it. What looks like a tool call in it is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.output.tools.base import held_suffix


@dataclass(frozen=True)
class Split:
    """A text as reasoning and the rest. The rest is empty while the reasoning goes on."""

    reasoning: str
    rest: str


@dataclass(frozen=True)
class Room:
    """Reasoning in front of an answer of any other grammar, as a structural tag: it ends with the second mark."""

    tag: Mapping[str, Any]
    optional: bool


@dataclass(frozen=True)
class Reasoning:
    """One style, by its marks. The line feeds that models write around them belong to neither side; `feeds` says
    whether its models write any."""

    begin: str
    end: str
    feeds: bool = True

    @property
    def markers(self) -> tuple[str, ...]:
        """See `ToolFormat.markers`."""
        return (self.begin, self.end)

    @property
    def around(self) -> tuple[str, str]:
        """What models write before and behind their reasoning."""
        return (f"{self.begin}\n", f"\n{self.end}\n\n") if self.feeds else (self.begin, self.end)

    def begun_by(self, prompt: str) -> bool:
        """Whether the prompt ends within reasoning, so that the model goes on with it."""
        return prompt.rfind(self.begin) > prompt.rfind(self.end) and prompt.rstrip().endswith(self.begin)

    def split(self, text: str, *, inside: bool, partial: bool) -> Split:
        """`text` taken apart; `inside` as `begun_by` said. With `partial` what may turn out otherwise is left out.

        A text that breaks off before the second mark is all reasoning.
        """
        if partial and self.begin.startswith(text.lstrip()):
            return Split("", "")
        start = self._start(text, inside)
        if start is None:
            return Split("", text)
        end = text.find(self.end, start)
        if end >= 0:
            rest = text[end + len(self.end) :]
            return Split(text[start:end].removesuffix("\n"), rest.removeprefix("\n").removeprefix("\n"))
        thought = text[start:]
        if partial:
            thought = thought[: len(thought) - held_suffix(thought, self.end)].removesuffix("\n")
        return Split(thought, "")

    def unfinished(self, text: str, *, inside: bool) -> bool:
        """Whether `text` breaks off within reasoning."""
        start = self._start(text, inside)
        return start is not None and self.end not in text[start:]

    def constrain(self, tag: Mapping[str, Any], *, inside: bool) -> dict[str, Any]:
        """The structural tag `tag` with reasoning in front, which may hold anything; without it where not `inside`."""
        answer = _without(tag["format"], self.markers)
        space = {"type": "regex", "pattern": r"\n{0,2}"}
        thinking = {"type": "sequence", "elements": [self._thought(inside), space, answer]}
        whole = thinking if inside else {"type": "or", "elements": [thinking, answer]}
        return {"type": "structural_tag", "format": whole}

    def room(self, prompt: str) -> Room | None:
        """The reasoning that may stand in front of an answer to `prompt`; None where the prompt has closed it."""
        if prompt.rstrip().endswith(self.end):
            return None
        inside = self.begun_by(prompt)
        return Room({"type": "structural_tag", "format": self._thought(inside)}, optional=not inside)

    def _thought(self, inside: bool) -> dict[str, Any]:
        begin = "" if inside else self.begin
        return {"type": "tag", "begin": begin, "content": {"type": "any_text"}, "end": self.end}

    def _start(self, text: str, inside: bool) -> int | None:
        """Where the reasoning starts; None if there is none, or not yet."""
        blank = len(text) - len(text.lstrip())
        if text.startswith(self.begin, blank):
            start = blank + len(self.begin)
            return start + 1 if text.startswith("\n", start) else start
        return 0 if inside else None


_STYLES = (Reasoning("<think>", "</think>"), Reasoning("[THINK]", "[/THINK]", feeds=False))


def reasoning_for(template: str) -> Reasoning | None:
    """The style that a chat template knows, or None."""
    return next((style for style in _STYLES if style.end in template), None)


def _without(node: Any, words: tuple[str, ...]) -> Any:
    """A format whose free text can't contain `words`: reasoning that starts late would hide the calls behind it."""
    if isinstance(node, list):
        return [_without(item, words) for item in node]
    if not isinstance(node, Mapping) or node.get("type") == "json_schema":
        return node
    changed = {key: _without(value, words) for key, value in node.items()}
    if node.get("type") == "any_text" and "excludes" in node:
        changed["excludes"] = [*node["excludes"], *words]
    return changed
