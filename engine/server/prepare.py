"""From a validated body to requests of the engine: render, encode, compile, check the lengths."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.errors import RequestError
from engine.output.dialect import Dialect
from engine.output.reasoning import Reasoning
from engine.output.text import TextOutput
from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice, read_choice, read_tools
from engine.prompt.answer import Conversation, as_sent, history_text, ids_of_beginning, next_beginning
from engine.prompt.messages import read_messages
from engine.prompt.template import ChatTemplate
from engine.prompt.thoughts import unsupported
from engine.prompt.tokenizer import Tokenizer
from engine.prompt.transcript import Transcript
from engine.sample.grammar import Grammar, GrammarCompiler
from engine.sample.loosen import unenforced
from engine.sample.structured import grammar_of
from engine.schedule.request import Request
from engine.server.fim import fill_in_middle
from engine.server.wire import ChatRequest, CompletionRequest, Sampling


@dataclass(frozen=True)
class Prompt:
    """A rendered and encoded prompt; `text` is None where the client sent token ids, `conversation` for no chat."""

    text: str | None
    ids: list[int]
    conversation: Conversation | None = None
    begun: bool = False
    """Whether the answer starts within reasoning that the prompt has opened."""


@dataclass(frozen=True)
class ChatCall:
    """One chat request: its prompt, a request of the engine for each choice, and the tools it may call."""

    prompt: Prompt
    requests: list[Request]
    tools: tuple[Tool, ...]

    @property
    def unenforced(self) -> list[str]:
        """The places in the tools' schemas that the answer is not held to."""
        return [f"{tool.name}{place}" for tool in self.tools for place in unenforced(tool.parameters)]


@dataclass(frozen=True)
class Limits:
    max_context: int
    kv_tokens: int

    @property
    def longest(self) -> int:
        return min(self.max_context, self.kv_tokens)


@dataclass(frozen=True)
class Caller:
    """What the gateway says of a call: whose it is, how long its prefix should be kept, which conversation it
    continues (a name within the tenant; empty if nobody says), and whether its next prompt is to be computed ahead."""

    tenant: str = ""
    retain_seconds: float = 0.0
    session: str = ""
    ahead: bool = False


class Preparer:
    """Thread-safe: rendering, encoding and compiling run on worker threads."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        dialect: Dialect,
        compiler: GrammarCompiler,
        limits: Limits,
        transcript: Transcript,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.dialect = dialect
        self.compiler = compiler
        self.limits = limits
        self.transcript = transcript

    def chat(self, body: ChatRequest, caller: Caller) -> ChatCall:
        """Raises RequestError before anything is scheduled."""
        tools = read_tools(body.tools)
        choice = read_choice(body.tool_choice, tools)
        prompt = self._chat_prompt(body, tools, caller, counted=True)
        grammar = self._grammar(body, tools, choice, prompt)
        requests = self._requests(body, prompt, body.limit, body.logprob_count, caller, grammar)
        return ChatCall(prompt, requests, () if choice.mode is ChoiceMode.NONE else tools)

    def history(self, body: ChatRequest, caller: Caller) -> list[int]:
        """The token ids of a conversation, with the opening of the next answer."""
        return self._chat_prompt(body, read_tools(body.tools), caller, counted=False).ids

    def prefix(self, body: ChatRequest, caller: Caller) -> list[int]:
        """`history`, refused where `chat` would refuse it."""
        ids = self.history(body, caller)
        self._max_tokens(len(ids), None, "messages")
        return ids

    def completion(self, body: CompletionRequest, caller: Caller) -> list[tuple[Prompt, list[Request]]]:
        if body.echo and body.logprobs is not None:
            message = "The log-probabilities of a prompt aren't computed: leave out echo or logprobs."
            raise RequestError(message, code="unsupported_parameter", param="logprobs")
        if not body.prompts:
            raise RequestError("prompt must not be empty.", code="invalid_value", param="prompt")
        prompts = [self._prompt(prompt) for prompt in body.prompts]
        stop_ids: frozenset[int] = frozenset()
        if body.suffix:
            prompts, stop_ids = self._around_middle(prompts, body.suffix)
        limit = body.max_tokens or 16
        grammar = grammar_of(self.compiler, body.structure)
        return [(p, self._requests(body, p, limit, body.logprobs, caller, grammar, stop_ids)) for p in prompts]

    def _around_middle(self, prompts: list[Prompt], suffix: str) -> tuple[list[Prompt], frozenset[int]]:
        """The prompts with the suffix behind them, in the model's own layout, and what ends a middle. An echo stays
        the prompt alone."""
        middle = fill_in_middle(self.tokenizer)
        if middle is None:
            message = "This model can't fill in the middle: its vocabulary has no tokens for it."
            raise RequestError(message, code="unsupported_parameter", param="suffix")
        self._check_size(suffix, "suffix")
        after = self.tokenizer.encode(suffix)
        around = [Prompt(p.text or self.tokenizer.decode(p.ids), middle.ids(p.ids, after)) for p in prompts]
        return around, middle.stop_ids

    def remember(
        self, caller: Caller, call: ChatCall, request: Request, seen: str | None = None, call_ids: Sequence[str] = ()
    ) -> None:
        """An answer has ended: keep its exact tokens, so that the next prompt can splice them in.

        `seen` is what a client had of it that left early, `call_ids` are those that its calls were sent with.
        """
        prompt, text = call.prompt, request.text
        conversation = prompt.conversation
        if prompt.text is None or conversation is None or text is None:
            return
        said = text.text if seen is None else seen
        parsed = self.dialect.parser(call.tools, prompt.begun).parse(said, partial=seen is not None)
        if seen is not None:
            if parsed.all_calls or parsed.reasoning:  # nobody sends these back broken off
                return
            said = parsed.content
        ids = list(request.output[:-1] if request.known[-1] in request.stop_ids else request.output)
        if ids and not said:  # the same prompt, sent once more, would get tokens that nobody sees
            return
        exact = ids_of_beginning(said, ids, self.tokenizer) if text.stopped or seen is not None else ids
        if exact is None:
            return
        sent = as_sent(parsed, call_ids)
        broken = self.dialect.unfinished(said, prompt.begun)  # a history would show its reasoning as closed
        later = None if broken else history_text(prompt.text, conversation, sent, self.template, self.tokenizer)
        turn, answers = conversation.turn, conversation.answers + 1
        for known in dict.fromkeys((prompt.text + said, later)):
            if known is not None:
                whole = [*prompt.ids, *exact]
                turn = self.transcript.remember(caller.tenant, known, whole, after=turn, answers=answers)

    def ahead(self, caller: Caller, call: ChatCall, request: Request, call_ids: Sequence[str]) -> list[int]:
        """The ids that the next prompt begins with, after an answer that was remembered. Empty if that isn't known."""
        prompt, text = call.prompt, request.text
        if prompt.conversation is None or text is None or self.dialect.unfinished(text.text, prompt.begun):
            return []
        parsed = self.dialect.parser(call.tools, prompt.begun).parse(text.text)
        beginning = next_beginning(prompt.conversation, as_sent(parsed, call_ids), self.template)
        return self.transcript.encode(caller.tenant, beginning, self.tokenizer).ids if beginning else []

    def _chat_prompt(self, body: ChatRequest, tools: tuple[Tool, ...], caller: Caller, *, counted: bool) -> Prompt:
        conversation = Conversation(
            read_messages(body.messages),
            tools,
            body.chat_template_kwargs,
            continued=body.continue_final_message is True,
            opened=body.add_generation_prompt is not False,
            preserve=self._preserved(body),
        )
        text = conversation.render(self.template)
        self._check_size(text, "messages")
        answers = conversation.answers if counted else None
        encoded = self.transcript.encode(caller.tenant, text, self.tokenizer, answers=answers)
        return Prompt(text, encoded.ids, replace(conversation, turn=encoded.turn), self.dialect.begun(text))

    def _preserved(self, body: ChatRequest) -> Reasoning | None:
        """The style of the reasoning that the history is to keep."""
        if not body.preserve_reasoning:
            return None
        if self.dialect.reasoning is None:
            raise unsupported("knows no reasoning")
        return self.dialect.reasoning

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
        stop_ids: frozenset[int] = frozenset(),
    ) -> list[Request]:
        max_tokens = self._max_tokens(len(prompt.ids), limit, "messages" if isinstance(body, ChatRequest) else "prompt")
        if limit is not None and (body.min_tokens or 0) > limit:
            message = f"min_tokens must not be more than the {limit} tokens that the answer may have."
            raise RequestError(message, code="invalid_value", param="min_tokens")
        params = body.sampling(body.seed if body.seed is not None else secrets.randbits(62), logprobs)
        ends = stop_ids.union(body.stop_token_ids or (), () if body.ignore_eos else self.tokenizer.eos_ids)
        params = replace(params, min_tokens=body.min_tokens or 0, ends=ends)
        shown = self.dialect.markers if isinstance(body, ChatRequest) else ()
        return [
            Request(
                namespace=caller.tenant,
                prompt=prompt.ids,
                max_tokens=max_tokens,
                sampling=params.for_choice(choice),
                stop_ids=ends,
                grammar=grammar.start() if grammar is not None else None,
                text=TextOutput(self.tokenizer, body.stops, shown),
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

    def _grammar(
        self, body: ChatRequest, tools: tuple[Tool, ...], choice: ToolChoice, prompt: Prompt
    ) -> Grammar | None:
        asked = body.structure
        structure = None if choice.forced else asked
        if structure is not None and choice.mode is ChoiceMode.AUTO and tools:
            choice = ToolChoice(ChoiceMode.REQUIRED)  # one or the other, without free text
        calls = self.dialect.tools.structural_tag(tools, choice, body.parallel_tool_calls is not False)
        if calls is not None and structure is None:
            calls = self.dialect.constrained(calls, prompt.begun)
        return grammar_of(self.compiler, structure, calls, self.dialect.room(prompt.text or ""))
