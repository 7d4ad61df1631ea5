"""What was generated, as the history of the next prompt will show it.

A client sends back what it was given: content and calls, not the generated text. The template writes them anew, and
may trim, set other spaces or leave something out. So an answer is remembered under the text that the template will
write for it, where that begins with the prompt that the answer was generated after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from os.path import commonprefix
from typing import Any

from engine.errors import RequestError
from engine.output.reasoning import Reasoning
from engine.output.tools.base import Parsed
from engine.output.tools.tool import Tool
from engine.prompt.detokenizer import Detokenizer
from engine.prompt.messages import Message, Role, ToolCall
from engine.prompt.template import ChatTemplate
from engine.prompt.tokenizer import Tokenizer
from engine.prompt.transcript import Turn, special_starts


@dataclass(frozen=True)
class Conversation:
    """What a chat's prompt was rendered from. `turn` is the remembered one that the prompt's ids begin with."""

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    extra: Mapping[str, Any] | None = None
    continued: bool = False  # the answer goes on with the last message
    opened: bool = True  # the prompt ends with the beginning of an answer
    turn: Turn | None = None
    preserve: Reasoning | None = None  # earlier answers keep their reasoning, which is of this style

    @property
    def answers(self) -> int:
        """How many whole answers of a model there are."""
        whole = self.messages[:-1] if self.continued else self.messages
        return sum(message.role is Role.ASSISTANT for message in whole)

    def render(self, template: ChatTemplate) -> str:
        """The text of the prompt. Raises RequestError for what the template refuses."""
        return template.render(
            self.messages,
            self.tools,
            add_generation_prompt=self.opened,
            continue_final=self.continued,
            extra=self.extra,
            preserve=self.preserve,
        )

    def with_answer(self, answer: Message) -> Conversation:
        """The conversation after `answer`, as a client may send it."""
        if not self.continued:
            return replace(self, messages=[*self.messages, answer], opened=False)
        last = self.messages[-1]
        whole = replace(last, content=last.content + answer.content, tool_calls=answer.tool_calls)
        return replace(self, messages=[*self.messages[:-1], whole], continued=False, opened=False)


def as_sent(parsed: Parsed, call_ids: Iterable[str] = ()) -> Message:
    """The message that a client makes of an answer, whose calls were sent with `call_ids`."""
    calls = zip(parsed.all_calls, chain(call_ids, repeat("")), strict=False)
    return Message(
        Role.ASSISTANT,
        parsed.content,
        tuple(ToolCall(call_id, call.name, call.arguments or "{}") for call, call_id in calls),
        reasoning=parsed.reasoning or None,
    )


def history_text(
    prompt: str, conversation: Conversation, answer: Message, template: ChatTemplate, tokenizer: Tokenizer
) -> str | None:
    """The text up to the end of `answer` in a later prompt; None where it isn't the prompt with an answer behind it.

    None too where the template leaves out a part, such as reasoning: then the model is to read on without it. And an
    answer that itself spells a special token has no certain end.
    """
    if not (conversation.opened or conversation.continued) or _spells_special(answer, tokenizer):
        return None
    try:
        text = conversation.with_answer(answer).render(template)
    except RequestError:  # a broken-off call, for example
        return None
    if not text.startswith(prompt):
        return None
    end = _end(text, len(prompt), tokenizer)
    return text[:end] if end is not None and _says(text[len(prompt) : end], answer) else None


def next_beginning(conversation: Conversation, answer: Message, template: ChatTemplate) -> str:
    """What the prompt after `answer` begins with, whatever the tools return or the user says next: all up to there.

    Empty where the template refuses such a conversation.
    """
    told = conversation.with_answer(answer)
    first = Message(Role.USER, "")
    if answer.tool_calls:
        call = answer.tool_calls[0]
        first = Message(Role.TOOL, "", tool_call_id=call.id, name=call.name)
    try:
        one, other = (
            replace(told, messages=[*told.messages, replace(first, content=said)]).render(template) for said in "ab"
        )
    except RequestError:
        return ""
    return commonprefix([one, other])  # noqa: RUF071 - character by character is meant


def ids_of_beginning(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> list[int] | None:
    """Ids for `text`, which is a beginning of what `ids` say: those that lie wholly in it, and its end encoded.

    None where no ids give exactly this text.
    """
    detokenizer = Detokenizer(tokenizer)
    read = kept = at = 0  # characters read, and of these and of the ids what is kept
    for number, token in enumerate(ids, 1):
        piece = detokenizer.push(token)
        if not text.startswith(piece, read) or read + len(piece) > len(text):
            break
        read += len(piece)
        if not detokenizer.pending:
            kept, at = number, read
    rest = tokenizer.encode(text[at:]) if at < len(text) else []
    if b"".join(map(tokenizer.token_bytes, rest)) != text[at:].encode("utf-8"):
        return None
    return [*ids[:kept], *rest]


def _end(text: str, start: int, tokenizer: Tokenizer) -> int | None:
    """Where the answer that begins at `start` ends: at the first token that ends answers, else the last special one."""
    starts = list(special_starts(text, tokenizer, start))
    ends = (at for at in starts if text.startswith(tokenizer.eos_names, at))
    return next(ends, starts[-1] if starts else None)


def _says(text: str, answer: Message) -> bool:
    """Whether nothing of the answer but white space around it was left out, such as reasoning."""
    parts = [answer.content, answer.reasoning or "", *(call.name for call in answer.tool_calls)]
    return all(part.strip() in text for part in parts)


def _spells_special(answer: Message, tokenizer: Tokenizer) -> bool:
    texts = [answer.content, answer.reasoning or "", *(f"{c.name}\n{c.arguments}" for c in answer.tool_calls)]
    return any(next(special_starts(text, tokenizer), None) is not None for text in texts)
