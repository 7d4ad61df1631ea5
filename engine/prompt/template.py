"""A chat as the text that its model was trained on.

The model's own Jinja template does the writing. Where it knows tools, it gets them; where it doesn't, the tools,
the calls and their results are written into ordinary messages with a `ToolFormat`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2 import meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import RequestError, StartError
from engine.output.reasoning import Reasoning
from engine.output.tools.base import Call, ToolFormat, render_message
from engine.output.tools.tool import Tool
from engine.prompt.messages import Message, Role
from engine.prompt.text import well_formed
from engine.prompt.thoughts import Thoughts, learn_layout

_MARK = "\ue000sapwood-final-message\ue000"


class ChatTemplate:
    """Renders messages with the Jinja `source` of a model, whose special tokens are `bos` and `eos`."""

    def __init__(self, source: str, bos: str, eos: str, tool_format: ToolFormat) -> None:
        self.tool_format = tool_format
        environment = _environment()
        try:
            self._template = environment.from_string(source)
            names = meta.find_undeclared_variables(environment.parse(source))
        except jinja2.TemplateError as error:
            raise StartError(f"the model's chat template is not valid Jinja: {error}") from None
        self.knows_tools = "tools" in names
        self._tokens = {"bos_token": bos, "eos_token": eos}

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        *,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        extra: Mapping[str, Any] | None = None,
        preserve: Reasoning | None = None,
    ) -> str:
        """The prompt for `messages`.

        With `continue_final` it ends within the last message, which the model goes on writing. `extra` are further
        template variables (`chat_template_kwargs`). `preserve`: the answers keep their reasoning, of this style, even
        where the template drops it. Raises RequestError for what the template refuses.
        """
        if not continue_final:
            return self._written(messages, tools, add_generation_prompt, extra, preserve)
        # A template closes every message, so the last one gets a mark, and the text is cut there.
        last = messages[-1]
        reasoning = last.reasoning if preserve else None
        marked = Message(last.role, last.content + _MARK, name=last.name, reasoning=reasoning)
        text = self._written([*messages[:-1], marked], tools, False, extra, preserve)
        return text[: text.rindex(_MARK)] if _MARK in text else text

    def _written(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        opened: bool,
        extra: Mapping[str, Any] | None,
        preserve: Reasoning | None,
    ) -> str:
        if preserve is None:
            return self._render(messages, tools, opened, extra)
        thoughts = Thoughts(preserve, messages, self.tool_format.layout.before)
        text = self._render(thoughts.marked, tools, opened, extra)
        return thoughts.fill(text, learn_layout(lambda few, opened: self._render(few, (), opened, extra), preserve))

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        add_generation_prompt: bool,
        extra: Mapping[str, Any] | None,
    ) -> str:
        native = self.knows_tools
        plain = messages if native else self._without_tools(messages, tools)
        variables = {
            **(extra or {}),
            **self._tokens,
            "messages": [_as_template(message) for message in plain],
            "tools": [tool.as_openai() for tool in tools] or None if native else None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return well_formed(self._template.render(variables))
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RequestError(
                f"the model's chat template can't render these messages: {error}",
                code="invalid_value",
                param="messages",
            ) from None

    def _without_tools(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
        """The same chat in messages that have text only."""
        plain = [self._with_calls_as_text(message, tools) for message in messages]
        if not tools:
            return plain
        block = self.tool_format.describe(tools)
        if plain and plain[0].role is Role.SYSTEM:
            text = f"{plain[0].content}\n\n{block}" if plain[0].content else block
            return [Message(Role.SYSTEM, text), *plain[1:]]
        return [Message(Role.SYSTEM, block), *plain]

    def _with_calls_as_text(self, message: Message, tools: Sequence[Tool]) -> Message:
        calls = [Call(call.name, call.arguments) for call in message.tool_calls]
        if not calls:
            return message
        content = render_message(self.tool_format, message.content, calls, tools)
        return Message(message.role, content, name=message.name, reasoning=message.reasoning)


def load_chat_template(metadata: Mapping[str, Any], folder: Path | None) -> str | None:
    """The template's source: GGUF metadata, `chat_template.jinja` or `tokenizer_config.json`; None for a base model."""
    source = metadata.get("tokenizer.chat_template")
    if isinstance(source, str):
        return source
    if folder is None:
        return None
    if (folder / "chat_template.jinja").is_file():
        return (folder / "chat_template.jinja").read_text("utf-8")
    return _from_settings(folder / "tokenizer_config.json")


def _from_settings(path: Path) -> str | None:
    """`chat_template` is a string, or a list of named ones, of which `default` is meant."""
    try:
        source = json.loads(path.read_text("utf-8")).get("chat_template")
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError) as error:
        raise StartError(f"{path} is damaged: {error}") from None
    if isinstance(source, list):
        named = {item.get("name"): item.get("template") for item in source if isinstance(item, dict)}
        source = named.get("default")
    return source if isinstance(source, str) else None


class _Arguments(dict[str, Any]):
    """A call's arguments for a template that wants a mapping, printed exactly as the client wrote them."""

    def __init__(self, members: Mapping[str, Any], source: str) -> None:
        super().__init__(members)
        self.source = source

    def __str__(self) -> str:
        return self.source

    def __add__(self, other: str) -> str:
        return self.source + other

    def __radd__(self, other: str) -> str:
        return other + self.source


def _as_template(message: Message) -> dict[str, Any]:
    """A message as Hugging Face templates expect it."""
    fields: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _template_arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    for key, value in (
        ("tool_call_id", message.tool_call_id),
        ("name", message.name),
        ("reasoning_content", message.reasoning),
    ):
        if value is not None:
            fields[key] = value
    return fields


def _template_arguments(source: str) -> _Arguments | str:
    try:
        members = json.loads(source)
    except (ValueError, RecursionError):
        return source
    return _Arguments(members, source) if isinstance(members, dict) else source


def _environment() -> ImmutableSandboxedEnvironment:
    """Jinja as Hugging Face sets it up. A template comes with a model's weights, so it runs in the sandbox."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON: Jinja's own filter escapes for HTML, which no model was trained on."""
    if isinstance(value, _Arguments):
        return value.source
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
