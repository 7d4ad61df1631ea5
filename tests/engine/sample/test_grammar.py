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
from engine.sample.loosen import unenforced
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
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
    {"type": "object", "patternProperties": {"^a+$": {"type": "null"}}, "additionalProperties": False},
    {"type": "object", "propertyNames": {"pattern": "^x[0-9]$"}},
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}], "items": {"type": "integer"}},
    {"oneOf": [{"type": "string", "format": "date"}, {"type": "integer", "exclusiveMinimum": 10}]},
    {"allOf": [{"type": "object", "properties": {"k": {"type": ["string", "null"]}}, "required": ["k"]}]},
    {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "string", "minLength": 2}},
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


def test_a_string_of_bounded_length_is_json(compiler, tokenizer):
    grammar = compiler.json_schema({"type": "string", "minLength": 1, "maxLength": 3})
    for text in ('"a"', '"字字字"', r'"\"\n\\"'):
        assert accepts(grammar, tokenizer, text), text
    for text in ('""', '"abcd"', '"a\tb"', '"a\x1b"', '"a\n"', r'"abc\n"', '"a"b"', r'"\x"'):
        assert not accepts(grammar, tokenizer, text), text


def test_a_long_string_is_still_held_to_its_length(compiler, tokenizer):
    grammar = compiler.json_schema({"type": "string", "minLength": 2, "maxLength": 500})
    assert accepts(grammar, tokenizer, f'"{"word " * 100}"')
    for text in ('"a"', f'"{"word " * 100}x"', '"a\tb"', '"a\n"', '"a"b"'):
        assert not accepts(grammar, tokenizer, text), text


def test_a_least_length_leaves_the_rest_free(compiler, tokenizer):
    grammar = compiler.json_schema({"type": "object", "properties": {"a": {"type": "string", "minLength": 2}}})
    for value in ("ab", r"\"\n", "ab" * 400 + r"\u00e4\n"):
        assert accepts(grammar, tokenizer, f'{{"a": "{value}"}}'), value
    for value in ("", "a", r"\n", "a\tb", 'ab"'):
        assert not accepts(grammar, tokenizer, f'{{"a": "{value}"}}'), value


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "(" * 100_000 + "a" + ")" * 100_000},
        {"pattern": "^(ab|[c-f]x){10000}$"},
        {"pattern": "^a{1,99999999999}$"},
        {"patternProperties": {"x" * 3000: {}}},
        {"properties": {f"p{i}": {"pattern": "[a-z]{1,90}"} for i in range(30)}},
        {"properties": {f"p{i}": {} for i in range(300)}, "minProperties": 100, "maxProperties": 200},
    ],
    ids=["nested", "counted", "huge count", "names", "many", "counted properties"],
)
def test_what_would_take_the_compiler_down_is_refused_or_left_out(compiler, schema):
    schema = {"type": "object", **schema}
    with pytest.raises(RequestError) as refused:
        compiler.json_schema(schema)
    assert refused.value.code == "invalid_schema"
    assert unenforced(schema)
    compiler.structural_tag(FenceFormat().structural_tag([Tool("t", "", schema)], ToolChoice(ChoiceMode.REQUIRED)))


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


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_white_space_is_bounded(compiler, tokenizer):
    """Endless white space is the way for a model to stay within a schema and never to end."""
    for grammar in (compiler.json_schema(NUMBER), compiler.json_object()):
        for blank in (" ", "\n", "\t"):
            assert accepts(grammar, tokenizer, f'{{"n":{2 * blank}1}}')
            for body in ('{%s"n": 1}', '{"n"%s: 1}', '{"n":%s1}', '{"n": 1%s}', '{"n": 1}%s', '%s{"n": 1}'):
                assert not accepts(grammar, tokenizer, body % (3 * blank)), body


CALL_FRAMES = [
    (FenceFormat(), "```run\n%s\n```"),
    (HermesFormat(), '<tool_call>\n{"name": "run", "arguments": %s}\n</tool_call>'),
]


@pytest.mark.parametrize(("tool_format", "frame"), CALL_FRAMES)
def test_the_arguments_of_a_call_are_on_one_line_as_templates_write_them(compiler, tokenizer, tool_format, frame):
    """White space to choose would leave a choice nearly everywhere: little of a call could be forced."""
    tag = tool_format.structural_tag([Tool("run", "", NUMBER)], ToolChoice(ChoiceMode.REQUIRED))
    grammar = compiler.structural_tag(tag)
    assert accepts(grammar, tokenizer, frame % '{"n": 1}')
    for body in ('{"n":1}', '{ "n": 1}', '{"n": 1 }', '{"n" : 1}', '{\n"n": 1\n}', '{"n":  1}'):
        assert not accepts(grammar, tokenizer, frame % body), body


def forced_of(grammar, ids: list[int]) -> int:
    """How many tokens of a text jump-forward appends."""
    state, forced, at = grammar.start(), 0, 0
    while at < len(ids):
        assert state.accept(ids[at])
        at += 1
        for token in state.forced():
            if at == len(ids) or token != ids[at]:
                break
            assert state.accept(token)
            forced, at = forced + 1, at + 1
    return forced


@pytest.mark.parametrize("tool_format", [FenceFormat(), HermesFormat()])
@pytest.mark.parametrize("mode", [ChoiceMode.AUTO, ChoiceMode.REQUIRED])
def test_nearly_a_third_of_a_call_or_more_is_forced(compiler, tokenizer, tool_format, mode):
    text = {"type": "string"}
    names = {"edit_file": ("path", "old_string", "new_string"), "search_text": ("pattern", "folder")}
    tools = [
        Tool(name, "", {"type": "object", "properties": dict.fromkeys(keys, text), "required": list(keys)})
        for name, keys in names.items()
    ]
    grammar = compiler.structural_tag(tool_format.structural_tag(tools, ToolChoice(mode)))
    for name, keys in names.items():
        call = tool_format.render_call(name, json.dumps(dict.fromkeys(keys, "return a + b")), tools)
        ids = tokenizer.encode(call)
        assert forced_of(grammar, ids) >= 0.3 * len(ids), call


def test_a_model_that_only_wants_white_space_still_ends(compiler, tokenizer):
    state = compiler.json_schema(NUMBER).start()
    for _ in range(40):
        choices = allowed(compiler, state)
        blank = [token for token in choices if not tokenizer.token_bytes(token).strip() and token != EOS]
        rest = [token for token in choices if not tokenizer.token_bytes(token)[:1].isdigit()]
        token = (blank or rest or choices)[0]
        assert state.accept(token)
        if state.finished:
            return
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
    assert tokenizer.encode("x")[0] in (*allowed(compiler, twin), *twin.forced())
    assert twin.accept(tokenizer.encode("x")[0])
    assert twin.complete
    assert not twin.finished
    assert twin.accept(EOS)
    assert twin.finished
    assert not twin.accept(EOS)


def test_forced_tokens_are_a_beginning_of_what_must_come(compiler, tokenizer):
    state = compiler.regex("def add\\(a, b\\):(x|y)").start()
    forced = state.forced()
    text = tokenizer.decode(forced)
    assert len(text) > 4
    assert "def add(a, b):".startswith(text)
    assert all(state.accept(token) for token in forced)


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
        ({"type": "string", "pattern": "^a*$", "maxLength": 3}, "length"),
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
    hidden = run.partition("\n")[0] + "\n" + edit  # a call's opening must not pass for content
    for text in (wrong, hidden, f"x{run}", f"{run} and", f"{run}\n", run[:-1]):
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


@pytest.mark.parametrize("parameters", [{}, {"properties": {}}])
def test_arguments_are_an_object_even_where_the_schema_does_not_say_so(compiler, tokenizer, parameters):
    grammar = compiler.structural_tag(FenceFormat().structural_tag([Tool("t", "", parameters)], REQUIRED))
    assert accepts(grammar, tokenizer, fence("t", "{}"))
    assert not accepts(grammar, tokenizer, fence("t", '"x"'))


def test_raw_bodies_are_held_to_what_is_enforced(compiler, tokenizer):
    grammar = compiler.structural_tag(FenceFormat().structural_tag(TOOLS, REQUIRED))
    assert accepts(grammar, tokenizer, fence("add", "def add(a, b):\n    return a + b"))
    assert not accepts(grammar, tokenizer, fence("add", "def sub(a, b):\n    return a + b"))
    assert accepts(grammar, tokenizer, fence("pick", "bc"))
    assert not accepts(grammar, tokenizer, fence("pick", "b"))
    short = Tool("t", "", {"properties": {"x": {"type": "string", "maxLength": 3}}, "required": ["x"]})
    name = {"type": "string", "maxLength": 2}
    both = Tool("b", "", {**JSON.parameters, "properties": {"n": name, "m": {"type": "integer"}}})
    for tools in ([short], [short, both]):
        grammar = compiler.structural_tag(FenceFormat().structural_tag(tools, REQUIRED))
        assert accepts(grammar, tokenizer, fence("t", "abc"))
        assert not accepts(grammar, tokenizer, fence("t", "abcd"))
    assert accepts(grammar, tokenizer, fence("b", '{"n": "ab", "m": 2}'))
    assert not accepts(grammar, tokenizer, fence("b", '{"n": "abc"}'))
    assert not accepts(grammar, tokenizer, fence("b", '{"n": "\t"}'))


def test_a_long_text_in_a_call_keeps_its_escapes(compiler, tokenizer):
    text = {"type": "string", "maxLength": 10_000}
    tool = Tool("b", "", {"type": "object", "properties": {"n": text, "m": {"type": "integer"}}})
    grammar = compiler.structural_tag(FenceFormat().structural_tag([tool], REQUIRED))
    assert accepts(grammar, tokenizer, fence("b", r'{"n": "say \"a\"\n", "m": 2}'))
    assert not accepts(grammar, tokenizer, fence("b", '{"n": "\t"}'))


def test_a_strict_tool_is_held_to_the_longest_length_of_a_long_text(compiler, tokenizer):
    text = {"type": "string", "maxLength": 200}
    for strict in (True, False):
        tool = Tool("b", "", {"type": "object", "properties": {"n": text, "m": {"type": "integer"}}}, strict)
        grammar = compiler.structural_tag(FenceFormat().structural_tag([tool], REQUIRED))
        assert accepts(grammar, tokenizer, fence("b", json.dumps({"n": "a" * 200})))
        assert accepts(grammar, tokenizer, fence("b", json.dumps({"n": "a" * 201}))) is not strict


@pytest.mark.parametrize(
    ("tool_format", "choice"),
    [(FenceFormat(), AUTO), (FenceFormat(), REQUIRED), (HermesFormat(), REQUIRED)],
    ids=["fence auto", "fence required", "hermes required"],
)
def test_whatever_is_generated_parses_and_renders_back(compiler, tokenizer, tool_format, choice):
    from engine.output.tools.base import render_message

    grammar = compiler.structural_tag(tool_format.structural_tag([JSON, RAW], choice))
    starts = ["```run", "```edit\n```", "x\n```edit\n", "```edit\na\n", "```"] if choice is AUTO else [""]
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
