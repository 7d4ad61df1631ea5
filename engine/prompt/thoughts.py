"""Reasoning written back into a history from which the chat template drops it.

Most templates leave out what a model thought in earlier turns, so that the next prompt is no longer the text that was
generated and its cached prefix ends there. So each answer in the history is rendered as a mark, and where the mark
stands, the answer is written as its model wrote it: reasoning between its own marks, then the content, untouched.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.errors import RequestError
from engine.output.reasoning import Reasoning
from engine.prompt.messages import Message, Role

PARAM = "preserve_reasoning"
Render = Callable[[Sequence[Message], bool], str]
"""Messages, and whether the beginning of an answer follows them, as the template's text."""


@dataclass(frozen=True)
class Layout:
    """The text around an answer's reasoning. `empty` stands in front of an answer whose prompt has closed it."""

    before: str
    after: str
    empty: str = ""


class Thoughts:
    """One rendering of `messages`: render `marked`, then `fill` the text. `gap` is what precedes calls in content."""

    def __init__(self, style: Reasoning, messages: Sequence[Message], gap: str = "") -> None:
        self._style = style
        self._marks = _Marks(style, gap)
        self._messages = [self._told_apart(message) for message in messages]

    @property
    def marked(self) -> list[Message]:
        """The messages with a mark in place of every answer and its reasoning."""
        return [
            self._marks.put_on(message, number) if message.role is Role.ASSISTANT else message
            for number, message in enumerate(self._messages)
        ]

    def fill(self, text: str, layout: Layout) -> str:
        """`text`, rendered from `marked`, with the answers in it. Raises RequestError where reasoning has no place."""
        missing = {number for number, message in enumerate(self._messages) if message.reasoning}

        def answer(found: re.Match[str]) -> str:
            number = int(found["number"])
            missing.discard(number)
            message = self._messages[number]
            gap = "" if message.tool_calls and not message.content.strip("\n") else found["gap"] or ""
            return self._written(message, found["block"] or "", layout) + gap

        filled = self._marks.pattern.sub(answer, text)
        if missing or self._marks.reasoning in filled:
            raise unsupported("has no place for the reasoning of an earlier answer")
        return filled

    def _told_apart(self, message: Message) -> Message:
        """Reasoning that a client left in the content is reasoning too; a blank one is none."""
        if message.role is not Role.ASSISTANT:
            return message
        if message.reasoning and message.reasoning.strip():
            return replace(message, reasoning=message.reasoning.strip())
        split = self._style.split(message.content, inside=False, partial=False)
        if self._style.unfinished(message.content, inside=False) or not split.reasoning.strip():
            return replace(message, reasoning=None)
        return replace(message, reasoning=split.reasoning.strip(), content=split.rest)

    def _written(self, message: Message, block: str, layout: Layout) -> str:
        """An answer as it was generated. `block` is the reasoning's place that the template itself wrote."""
        if message.reasoning:
            return f"{layout.before}{message.reasoning}{layout.after}{message.content}"
        own = message.content.lstrip().startswith(self._style.begin)
        return message.content if own else f"{layout.empty or block}{message.content}"


class _Marks:
    """Texts that no message holds, and the pattern that finds them again."""

    def __init__(self, style: Reasoning, gap: str = "") -> None:
        nonce = secrets.token_hex(8)
        self.reasoning = f"\ue000thought-{nonce}\ue000"
        self._content = f"\ue000answer-{nonce}-"
        begin, end = re.escape(style.begin), re.escape(style.end)
        block = rf"{begin}\s*+(?:{self.reasoning}\s*+)?+{end}\s*+"
        behind = rf"(?P<gap>{re.escape(gap)})?"
        self.pattern = re.compile(rf"(?P<block>{block})?{self._content}(?P<number>\d+)\ue000{behind}")
        self.layout = re.compile(rf"({begin}\s*+){self.reasoning}(\s*+{end}\s*+){self._content}")

    def put_on(self, message: Message, number: int) -> Message:
        reasoning = self.reasoning if message.reasoning else None
        return replace(message, content=f"{self._content}{number}\ue000", reasoning=reasoning)


def learn_layout(render: Render, style: Reasoning) -> Layout:
    """How the template writes the reasoning of an answer to the last question, and how it begins one."""
    question, marks = Message(Role.USER, "?"), _Marks(style)
    answer = marks.put_on(Message(Role.ASSISTANT, "", reasoning="?"), 1)
    shown = marks.layout.search(_try(render, [question, answer], False))
    before, after = shown.groups() if shown else style.around
    begin, end = re.escape(style.begin), re.escape(style.end)
    opening = re.search(rf"({begin}\s*+)({end}\s*+)?\Z", _try(render, [question], True))
    if opening is None:
        return Layout(before, after)
    return Layout(before, after, opening[0]) if opening[2] else Layout(opening[0], after)


def unsupported(why: str) -> RequestError:
    message = f"{PARAM} can't be kept: this model's chat template {why}. Leave it out."
    return RequestError(message, code="unsupported_parameter", param=PARAM)


def _try(render: Render, messages: Sequence[Message], opened: bool) -> str:
    try:
        return render(messages, opened)
    except RequestError:  # a template that refuses so short a chat
        return ""
