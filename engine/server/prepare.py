"""From a validated body to requests of the engine: render, encode, compile, check the lengths."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from engine.errors import RequestError
from engine.output.text import TextOutput
from engine.output.tools.base import ToolFormat
from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice, read_choice, read_tools
from engine.prompt.messages import read_messages
from engine.prompt.template import ChatTemplate
from engine.prompt.tokenizer import Tokenizer
from engine.prompt.transcript import Transcript
from engine.sample.grammar import Grammar, GrammarCompiler
from engine.schedule.request import Request
from engine.server.wire import ChatRequest, CompletionRequest, Sampling


@dataclass(frozen=True)
class Prompt:
    """A rendered and encoded prompt; `text` is None where the client sent token ids."""

    text: str | None
    ids: list[int]


@dataclass(frozen=True)
class ChatCall:
    """One chat request: its prompt, a request of the engine for each choice, and the tools it may call."""

    prompt: Prompt
    requests: list[Request]
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class Limits:
    max_context: int
    kv_tokens: int

    @property
    def longest(self) -> int:
        return min(self.max_context, self.kv_tokens)


@dataclass(frozen=True)
class Caller:
    """What the gateway says of a call: whose it is, how long its prefix should be kept, and which conversation it
    continues (a name within the tenant; empty if nobody says)."""

    tenant: str = ""
    retain_seconds: float = 0.0
    session: str = ""


class Preparer:
    """Thread-safe: rendering, encoding and compiling run on worker threads."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        tool_format: ToolFormat,
        compiler: GrammarCompiler,
        limits: Limits,
        transcript: Transcript,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.tool_format = tool_format
        self.compiler = compiler
        self.limits = limits
        self.transcript = transcript

    def chat(self, body: ChatRequest, caller: Caller) -> ChatCall:
        """Raises RequestError before anything is scheduled."""
        tools = read_tools(body.tools)
        choice = read_choice(body.tool_choice, tools)
        grammar = self._grammar(body, tools, choice)
        prompt = self._chat_prompt(body, tools, caller)
        requests = self._requests(body, prompt, body.limit, body.logprob_count, caller, grammar)
        return ChatCall(prompt, requests, () if choice.mode is ChoiceMode.NONE else tools)

    def history(self, body: ChatRequest, caller: Caller) -> list[int]:
        """The token ids of a conversation, with the opening of the next answer."""
        return self._chat_prompt(body, read_tools(body.tools), caller).ids

    def prefix(self, body: ChatRequest, caller: Caller) -> list[int]:
        """`history`, refused where `chat` would refuse it."""
        ids = self.history(body, caller)
        self._max_tokens(len(ids), None, "messages")
        return ids

    def completion(self, body: CompletionRequest, caller: Caller) -> list[tuple[Prompt, list[Request]]]:
        if body.suffix:
            raise RequestError("This model can't fill in the middle.", code="unsupported_parameter", param="suffix")
        if not body.prompts:
            raise RequestError("prompt must not be empty.", code="invalid_value", param="prompt")
        prompts = [self._prompt(prompt) for prompt in body.prompts]
        limit = body.max_tokens or 16
        return [(p, self._requests(body, p, limit, body.logprobs, caller, None)) for p in prompts]

    def remember(self, caller: Caller, prompt: Prompt, request: Request) -> None:
        """A turn has ended: keep its exact tokens, so that the next prompt can splice them in."""
        if prompt.text is None or request.text is None or request.text.stopped:
            return
        output = list(request.output)
        if output and output[-1] in request.stop_ids:
            output.pop()
        self.transcript.remember(caller.tenant, prompt.text + request.text.text, [*prompt.ids, *output])

    def _chat_prompt(self, body: ChatRequest, tools: tuple[Tool, ...], caller: Caller) -> Prompt:
        text = self.template.render(
            read_messages(body.messages),
            tools,
            continue_final=body.continue_final_message is True,
            extra=body.chat_template_kwargs,
        )
        self._check_size(text, "messages")
        return Prompt(text, self.transcript.encode(caller.tenant, text, self.tokenizer))

    def _prompt(self, prompt: str | list[int]) -> Prompt:
        if isinstance(prompt, str):
            self._check_size(prompt, "prompt")
            return Prompt(prompt, self.tokenizer.encode(prompt))
        bad = next((i for i in prompt if i >= self.tokenizer.vocab_size), None)
        if bad is not None:
            raise RequestError(f"Token id {bad} is not in the vocabulary.", code="invalid_value", param="prompt")
        return Prompt(None, list(prompt))

    def _requests(
        self,
        body: Sampling,
        prompt: Prompt,
        limit: int | None,
        logprobs: int | None,
        caller: Caller,
        grammar: Grammar | None,
    ) -> list[Request]:
        max_tokens = self._max_tokens(len(prompt.ids), limit, "messages" if isinstance(body, ChatRequest) else "prompt")
        params = body.sampling(body.seed if body.seed is not None else secrets.randbits(62), logprobs)
        return [
            Request(
                namespace=caller.tenant,
                prompt=prompt.ids,
                max_tokens=max_tokens,
                sampling=params.for_choice(choice),
                stop_ids=frozenset() if body.ignore_eos else self.tokenizer.eos_ids,
                grammar=grammar.start() if grammar is not None else None,
                text=TextOutput(self.tokenizer, body.stops),
                retain_seconds=caller.retain_seconds,
            )
            for choice in range(body.choices)
        ]

    def _max_tokens(self, prompt: int, limit: int | None, param: str) -> int:
        if prompt == 0:
            raise RequestError("The prompt is empty.", code="invalid_value", param=param)
        room = self.limits.longest - prompt
        if room < 1:
            raise self._too_long(str(prompt), param)
        return min(room, limit) if limit is not None else room

    def _check_size(self, text: str, param: str) -> None:
        """Refuse what can't fit before it is tokenised: megabytes would take seconds of a core."""
        fewest = self.tokenizer.at_least(len(text))
        if fewest > self.limits.longest:
            raise self._too_long(f"at least {fewest}", param)

    def _too_long(self, tokens: str, param: str) -> RequestError:
        return RequestError(
            f"This model's maximum context length is {self.limits.longest} tokens. However, your {param} "
            f"resulted in {tokens} tokens. Please reduce the length of the {param} or completion.",
            code="context_length_exceeded",
            param=param,
        )

    def _grammar(self, body: ChatRequest, tools: tuple[Tool, ...], choice: ToolChoice) -> Grammar | None:
        tag = self.tool_format.structural_tag(tools, choice, body.parallel_tool_calls is not False)
        asked = body.response_format if body.response_format and body.response_format.type != "text" else None
        if tag is not None and asked is not None:
            message = (
                'response_format and callable tools can\'t both be enforced: leave one out, or set tool_choice "none".'
            )
            raise RequestError(message, code="unsupported_parameter", param="response_format")
        if tag is not None:
            return self.compiler.structural_tag(tag)
        if asked is None:
            return None
        if asked.type == "json_object":
            return self.compiler.json_object()
        if asked.json_schema is None or asked.json_schema.schema_ is None:
            param = "response_format.json_schema.schema"
            raise RequestError("json_schema needs a schema.", code="missing_parameter", param=param)
        return self.compiler.json_schema(asked.json_schema.schema_, strict=asked.json_schema.strict is not False)
