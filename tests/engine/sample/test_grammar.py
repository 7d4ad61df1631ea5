"""Grammars: what they let through is valid, and what isn't valid doesn't get through."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest
import torch

from engine.errors import RequestError
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import HermesFormat
from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice
from engine.sample.grammar import GrammarCompiler
from engine.sample.schema import check_schema

EOS = 2


@pytest.fixture(scope="session")
def compiler(tokenizer):
    return GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)


def allowed(compiler, state) -> list[int]:
    mask = torch.zeros(compiler.mask_words, dtype=torch.int32)
    state.fill(mask)
    bits = (mask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32)) & 1
    return bits.flatten().nonzero().flatten().tolist()


def accepts(grammar, tokenizer, text: str) -> bool:
    """Whether `text` is allowed as a whole, in the tokenizer's own tokens."""
    state = grammar.start()
    return all(state.accept(token) for token in tokenizer.encode(text)) and state.accept(EOS)


def walk(compiler, grammar, tokenizer, seed: int, limit: int = 400) -> str | None:
    """Text of random allowed tokens, with a taste for ending; None if it doesn't end in time."""
    rng = random.Random(seed)
    state = grammar.start()
    ids: list[int] = []
    closing = set(tokenizer.encode('"') + tokenizer.encode("}") + tokenizer.encode("]"))
    while not state.finished:
        if len(ids) == limit:
            return None
        choices = allowed(compiler, state)
        assert choices
        ending = [token for token in choices if token == EOS or token in closing]
        token = rng.choice(ending) if ending and rng.random() < 0.4 else rng.choice(choices)
        assert state.accept(token)
        ids.append(token)
    assert ids.pop() == EOS
    return b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8")


SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "tags": {"type": "array", "items": {"enum": ["x", "y", 3, None]}, "maxItems": 4},
            "deep": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        },
        "required": ["name", "deep"],
    },
    {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": -5, "maximum": 300}]},
    {"type": "string", "pattern": "^[a-c]{2,4}-[0-9]+$"},
    {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "value": {"type": "number"},
                    "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                },
                "required": ["value", "left"],
            }
        },
        "$ref": "#/$defs/tree",
    },
    {"const": {"a": [1, "b"]}},
]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: json.dumps(s)[:30])
def test_a_random_walk_under_a_schema_is_valid(compiler, tokenizer, schema, strict):
    grammar = compiler.json_schema(schema, strict)
    texts = [walk(compiler, grammar, tokenizer, seed) for seed in range(12)]
    ended = [text for text in texts if text is not None]
    assert len(ended) >= 6
    for text in ended:
        jsonschema.validate(json.loads(text), schema)


def test_strict_forbids_properties_that_are_not_named(compiler, tokenizer):
    schema, text = SCHEMAS[0], '{"a": 1, "b": 2}'
    assert not accepts(compiler.json_schema(schema, strict=True), tokenizer, text)
    assert accepts(compiler.json_schema(schema, strict=False), tokenizer, text)


def test_a_json_object_is_any_object_and_nothing_else(compiler, tokenizer):
    grammar = compiler.json_object()
    assert accepts(grammar, tokenizer, '{"a": [1, {"b": null}], "c": "字"}')
    assert accepts(grammar, tokenizer, "{}")
    assert not accepts(grammar, tokenizer, "[1]")
    assert not accepts(grammar, tokenizer, '{"a": }')


@pytest.mark.parametrize("which", ["schema", "object", "fence", "hermes"])
def test_white_space_ends(compiler, tokenizer, which):
    """A model that always prefers white space still gets through the structure of the JSON."""
    choice = ToolChoice(ChoiceMode.REQUIRED)
    grammar = {
        "schema": lambda: compiler.json_schema(SCHEMAS[0]),
        "object": compiler.json_object,
        "fence": lambda: compiler.structural_tag(FenceFormat().structural_tag([JSON], choice)),
        "hermes": lambda: compiler.structural_tag(HermesFormat().structural_tag([JSON], choice)),
    }[which]()
    state = grammar.start()
    blanks = 0
    for _ in range(60):
        choices = allowed(compiler, state)
        if EOS in choices:
            return
        blank = [token for token in choices if not tokenizer.token_bytes(token).strip()]
        blanks = blanks + 1 if blank else 0
        assert blanks < 8
        # Otherwise the shortest token that isn't a digit, so that numbers and strings end too.
        rest = sorted(
            choices, key=lambda t: (tokenizer.token_bytes(t)[:1] not in b'"}`', len(tokenizer.token_bytes(t)))
        )
        assert state.accept(blank[0] if blank else rest[0])
    pytest.fail("the JSON never ended")


def test_only_text_and_the_end_are_ever_allowed(compiler, tokenizer):
    """Special tokens read like text, but a model must not write `<|im_start|>` into an answer."""
    grammar = compiler.ebnf("root ::= [^\\n]*")
    state = grammar.start()
    specials = set(tokenizer.specials.values())
    assert specials & set(allowed(compiler, state)) == {EOS}
    assert not state.accept(1)
    assert state.accept(tokenizer.encode("hi")[0])


def test_a_state_can_go_back_fork_and_end(compiler, tokenizer):
    state = compiler.regex("(ab|ac)x").start()
    first, second = tokenizer.encode("a")[0], tokenizer.encode("b")[0]
    assert state.accept(first)
    twin = state.fork()
    assert state.accept(second)
    assert not state.complete
    state.rollback(1)
    assert state.accept(tokenizer.encode("c")[0])
    assert twin.accept(second)
    assert tokenizer.decode(twin.forced()) == "x"
    assert twin.accept(tokenizer.encode("x")[0])
    assert twin.complete
    assert not twin.finished
    assert twin.accept(EOS)
    assert twin.finished
    assert not twin.accept(EOS)


def test_a_padded_vocabulary_allows_no_token_that_does_not_exist(tokenizer):
    wide = GrammarCompiler(tokenizer, tokenizer.vocab_size + 64, tokenizer.eos_ids)
    state = wide.ebnf("root ::= [a-z]*").start()
    assert max(allowed(wide, state)) < tokenizer.vocab_size


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (5, "object or a boolean"),
        ({"type": "objekt"}, "/type"),
        ({"properties": {"a": {"type": ["string", 3]}}}, "/properties/a/type"),
        ({"type": "object", "properties": 5}, "/properties"),
        ({"required": "a"}, "/required"),
        ({"enum": []}, "/enum"),
        ({"anyOf": {}}, "/anyOf"),
        ({"items": [3]}, "/items"),
        ({"pattern": 3}, "/pattern"),
        ({"type": "string", "pattern": "(("}, "parenthesis"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"$ref": "http://localhost/x"}, "within the schema"),
        ({"not": {"type": "string"}}, "`not`"),
        ({"properties": {"a": {"if": True}}}, "/properties/a/if"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "number", "multipleOf": 3}, "multipleOf"),
        ({"allOf": [{"type": "integer"}, {"minimum": 4}]}, "allOf"),
        ({"type": "integer", "minimum": 5, "maximum": 1}, "minimum"),
    ],
    ids=str,
)
def test_a_bad_schema_is_named(compiler, schema, named):
    with pytest.raises(RequestError) as caught:
        compiler.json_schema(schema, param="response_format.json_schema.schema")
    error = caught.value
    assert (error.code, error.param, error.status) == (
        "invalid_schema",
        "response_format.json_schema.schema",
        400,
    )
    assert named in error.message
    assert "/project/" not in error.message


def test_deep_and_large_schemas_are_refused(compiler):
    deep: dict = {}
    for _ in range(100_000):
        deep = {"type": "object", "properties": {"a": deep}}
    large = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(50_000)}}
    long = {"enum": ["x" * 1_000_000]}
    for schema in (deep, large, long):
        with pytest.raises(RequestError) as caught:
            compiler.json_schema(schema)
        assert caught.value.code == "invalid_schema"
    while deep:  # a recursive destructor would go as deep
        deep = deep.get("properties", {}).get("a", {})


def test_a_schema_that_is_as_deep_as_allowed_compiles(compiler, tokenizer):
    schema, text = {"type": "null"}, "null"
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        text = '{"a": ' + text + "}"
    assert accepts(compiler.json_schema(schema), tokenizer, text)


@pytest.mark.parametrize("source", ["((", "a" * 300_000])
def test_a_bad_regex_or_grammar_is_a_request_error(compiler, source):
    for compile_it in (compiler.regex, compiler.ebnf):
        with pytest.raises(RequestError):
            compile_it(source)


def test_tool_schemas_are_checked_for_shape_only():
    check_schema({"type": "object", "not": {}}, "tools", enforce=False)
    with pytest.raises(RequestError):
        check_schema({"type": "x"}, "tools", enforce=False)


# --- tool calls -------------------------------------------------------------------------------------------------

JSON = Tool("run", "", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
RAW = Tool("edit", "", {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]})
ADD = Tool(
    "add",
    "",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "pattern": r"^def add\("}},
        "required": ["code"],
    },
)
PICK = Tool(
    "pick",
    "",
    {"type": "object", "properties": {"x": {"type": "string", "enum": ["a", "bc"]}}, "required": ["x"]},
)
TOOLS = (JSON, RAW, ADD, PICK)


def fence(name, body):
    return f"```{name}\n{body}\n```"


def hermes(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


RUN_F, EDIT_F = fence("run", '{"n": 1}'), fence("edit", "def f():\n    return '```'")
RUN_H, EDIT_H = hermes("run", '{"n": 1}'), hermes("edit", '{"code": "</tool_call>"}')
AUTO, REQUIRED = ToolChoice(ChoiceMode.AUTO), ToolChoice(ChoiceMode.REQUIRED)
NAMED = ToolChoice(ChoiceMode.NAMED, "edit")

TAG_CASES = [
    (FenceFormat(), RUN_F, EDIT_F, fence("run", '{"m": 1}')),
    (HermesFormat(), RUN_H, EDIT_H, hermes("run", '{"m": 1}')),
]


@pytest.mark.parametrize(("tool_format", "run", "edit", "wrong"), TAG_CASES, ids=["fence", "hermes"])
def test_tool_choice(compiler, tokenizer, tool_format, run, edit, wrong):
    def ok(choice, text, parallel=True):
        grammar = compiler.structural_tag(tool_format.structural_tag(TOOLS, choice, parallel))
        return accepts(grammar, tokenizer, text)

    assert tool_format.structural_tag(TOOLS, ToolChoice(ChoiceMode.NONE)) is None
    assert tool_format.structural_tag((), AUTO) is None
    for text in ("Hello.", "```python\nx\n```\nbye", run, f"Sure.\n{run}", f"\n{edit}", f"{run}\n{edit}"):
        assert ok(AUTO, text), text
    for text in (wrong, f"x{run}", f"{run} and", f"{run}\n", run[:-1]):
        assert not ok(AUTO, text), text
    for text in (run, edit, f"{run}\n{edit}\n{run}"):
        assert ok(REQUIRED, text), text
    for text in ("", "Hello.", f"Sure.\n{run}", wrong, f"{run}{edit}"):
        assert not ok(REQUIRED, text), text
    assert ok(NAMED, edit)
    for text in (run, "Hello.", f"{edit}\n{edit}"):
        assert not ok(NAMED, text), text
    assert ok(REQUIRED, run, parallel=False)
    assert not ok(REQUIRED, f"{run}\n{edit}", parallel=False)
    assert not ok(AUTO, f"{run}\n{edit}", parallel=False)


def test_raw_bodies_are_held_to_what_is_enforced(compiler, tokenizer):
    grammar = compiler.structural_tag(FenceFormat().structural_tag(TOOLS, REQUIRED))
    assert accepts(grammar, tokenizer, fence("add", "def add(a, b):\n    return a + b"))
    assert not accepts(grammar, tokenizer, fence("add", "def sub(a, b):\n    return a + b"))
    assert accepts(grammar, tokenizer, fence("pick", "bc"))
    assert not accepts(grammar, tokenizer, fence("pick", "b"))
    short = Tool("t", "", {"properties": {"x": {"type": "string", "maxLength": 3}}, "required": ["x"]})
    grammar = compiler.structural_tag(FenceFormat().structural_tag([short], REQUIRED))
    assert accepts(grammar, tokenizer, fence("t", "abc"))
    assert not accepts(grammar, tokenizer, fence("t", "abcd"))


@pytest.mark.parametrize(
    ("tool_format", "choice"),
    [(FenceFormat(), AUTO), (FenceFormat(), REQUIRED), (HermesFormat(), REQUIRED)],
    ids=["fence auto", "fence required", "hermes required"],
)
def test_whatever_is_generated_parses_and_renders_back(compiler, tokenizer, tool_format, choice):
    from engine.output.tools.base import render_message

    grammar = compiler.structural_tag(tool_format.structural_tag([JSON, RAW], choice))
    starts = ["```run\n", "```edit\n```", "x\n```edit\n", "```edit\na\n"] if choice is AUTO else [""]
    ended = 0
    for seed in range(12):
        rng = random.Random(seed)
        state = grammar.start()
        ids = tokenizer.encode(starts[seed % len(starts)])
        assert all(state.accept(token) for token in ids)
        closing = set(tokenizer.encode('"}`\n') + tokenizer.encode("\n```") + tokenizer.encode("```"))
        while not state.finished and len(ids) < 300:
            choices = allowed(compiler, state)
            likely = [token for token in choices if token in closing or token == EOS]
            token = rng.choice(likely) if likely and rng.random() < 0.7 else rng.choice(choices)
            assert state.accept(token)
            ids.append(token)
        if not state.finished:
            continue
        ended += 1
        data = b"".join(map(tokenizer.token_bytes, ids[:-1]))
        text = data.decode("utf-8")
        parsed = tool_format.parse(text, [JSON, RAW])
        assert parsed.open_call is None
        assert render_message(tool_format, parsed.content, parsed.calls, [JSON, RAW]) == text
        if choice is REQUIRED:
            assert parsed.calls
            assert parsed.content == ""
        for call in parsed.calls:
            json.loads(call.arguments)
    assert ended >= 4
