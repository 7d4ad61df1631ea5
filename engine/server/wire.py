"""OpenAI's request bodies, as far as they mean something to the engine. Unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, WithJsonSchema, model_validator

from engine.errors import RequestError
from engine.sample.params import SamplingParams
from engine.sample.structured import Kind, Structure
from engine.server.shapes import MESSAGES, TOOL_CHOICE, TOOLS

Tokens = list[Annotated[StrictInt, Field(ge=0)]]


class StreamOptions(BaseModel):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class StructuredOutputs(BaseModel):
    """vLLM's name for the same constraints."""

    json_: dict[str, Any] | bool | StrictStr | None = Field(default=None, alias="json")
    json_object: StrictBool | None = None
    regex: StrictStr | None = None
    choice: Annotated[list[StrictStr], Field(max_length=1024)] | None = None
    grammar: StrictStr | None = None
    structural_tag: Any = None

    def structures(self) -> list[Structure]:
        if self.structural_tag is not None:
            param = "structured_outputs.structural_tag"
            raise RequestError(f"{param} is not supported: use tools.", code="unsupported_parameter", param=param)
        found = [
            (Kind.JSON_SCHEMA, self.json_, "json"),
            (Kind.JSON_OBJECT, self.json_object or None, "json_object"),
            (Kind.REGEX, self.regex, "regex"),
            (Kind.CHOICE, self.choice, "choice"),
            (Kind.EBNF, self.grammar, "grammar"),
        ]
        return [
            Structure(kind, value, f"structured_outputs.{name}") for kind, value, name in found if value is not None
        ]


class Sampling(BaseModel):
    """The fields that chat and text completions share. `null` means the default."""

    model_config = ConfigDict(extra="ignore")

    model: StrictStr | None = None
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[StrictInt, Field(ge=-1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    seed: StrictInt | None = None
    logit_bias: Annotated[dict[int, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1024)] | None = None
    n: Annotated[StrictInt, Field(ge=1, le=128)] | None = None
    stop: StrictStr | Annotated[list[StrictStr], Field(max_length=16)] | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    stop_token_ids: Annotated[Tokens, Field(max_length=1024)] | None = None
    ignore_eos: StrictBool | None = None
    min_tokens: Annotated[StrictInt, Field(ge=0)] | None = None
    structured_outputs: StructuredOutputs | None = None
    regex: StrictStr | None = None
    ebnf: StrictStr | None = None
    json_schema: dict[str, Any] | bool | StrictStr | None = None

    @property
    def choices(self) -> int:
        return self.n or 1

    @property
    def stops(self) -> list[str]:
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [stop for stop in stops if stop]

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage is True

    @property
    def continuous_usage(self) -> bool:
        """Usage in every chunk: some clients lose their content over it, so it takes both options."""
        options = self.stream_options
        return self.include_usage and options is not None and options.continuous_usage_stats is True

    @property
    def structure(self) -> Structure | None:
        """What the text must be; by one field at most."""
        asked = self._structures()
        if len(asked) > 1:
            names = " and ".join(structure.param for structure in asked[:2])
            message = f"{names} can't be combined: leave all but one out."
            raise RequestError(message, code="invalid_value", param=asked[1].param)
        return asked[0] if asked else None

    def _structures(self) -> list[Structure]:
        named = [
            (Kind.JSON_SCHEMA, self.json_schema, "json_schema"),
            (Kind.REGEX, self.regex, "regex"),
            (Kind.EBNF, self.ebnf, "ebnf"),
        ]
        asked = [Structure(kind, value, name) for kind, value, name in named if value is not None]
        return [*(self.structured_outputs.structures() if self.structured_outputs else []), *asked]

    def sampling(self, seed: int, logprobs: int | None) -> SamplingParams:
        """`seed` is the request's own or one drawn for it."""
        return SamplingParams(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_k=max(self.top_k or 0, 0),
            top_p=1.0 if self.top_p is None else self.top_p,
            min_p=self.min_p or 0.0,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            repetition_penalty=self.repetition_penalty or 1.0,
            seed=seed,
            logit_bias=self.logit_bias or {},
            logprobs=logprobs,
        )


class JSONSchemaFormat(BaseModel):
    name: str | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    strict: bool | None = None


class ResponseFormat(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JSONSchemaFormat | None = None

    def structure(self) -> Structure | None:
        if self.type == "text":
            return None
        if self.type == "json_object":
            return Structure(Kind.JSON_OBJECT, True, "response_format")
        param = "response_format.json_schema.schema"
        if self.json_schema is None or self.json_schema.schema_ is None:
            raise RequestError("json_schema needs a schema.", code="missing_parameter", param=param)
        return Structure(Kind.JSON_SCHEMA, self.json_schema.schema_, param, self.json_schema.strict is not False)


class ChatRequest(Sampling):
    messages: Annotated[Any, WithJsonSchema(MESSAGES)]
    """Read by `engine.prompt.messages`, `tools` and `tool_choice` by `engine.output.tools`."""
    max_completion_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    tools: Annotated[Any, WithJsonSchema(TOOLS)] = None
    tool_choice: Annotated[Any, WithJsonSchema(TOOL_CHOICE)] = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    preserve_reasoning: StrictBool | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs: true.", code="invalid_value", param="top_logprobs")
        if self.continue_final_message and self.add_generation_prompt:
            message = "An answer can't both continue the final message and begin a new one: leave one of them out."
            raise RequestError(message, code="invalid_value", param="add_generation_prompt")
        return self

    def _structures(self) -> list[Structure]:
        structure = self.response_format.structure() if self.response_format else None
        return [*([structure] if structure else []), *super()._structures()]

    @property
    def limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def logprob_count(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionRequest(Sampling):
    prompt: StrictStr | Tokens | list[StrictStr] | list[Tokens]
    logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    echo: StrictBool | None = None
    suffix: str | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        prompt = self.prompt
        if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
            return [prompt]
        return list(prompt)  # type: ignore[arg-type]
