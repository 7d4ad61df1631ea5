"""What an answer's text must be: every kind of structure, alone or next to tool calls."""

from __future__ import annotations

import pytest

from engine.errors import RequestError
from engine.output.tools.fence import FenceFormat
from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice
from engine.sample.compiled import CompiledCache
from engine.sample.grammar import GrammarCompiler
from engine.sample.structured import Kind, Structure, grammar_of
from engine.server.wire import ChatRequest, CompletionRequest

EOS = 2
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture(scope="module")
def compiler(tokenizer):
    return GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)


def accepts(grammar, tokenizer, text):
    state = grammar.start()
    return all(state.accept(token) for token in tokenizer.encode(text)) and state.accept(EOS)


@pytest.mark.parametrize(
    ("kind", "value", "good", "bad"),
    [
        (Kind.JSON_OBJECT, True, '{"a": [1]}', "[1]"),
        (Kind.JSON_SCHEMA, NUMBER, '{"n": 4}', '{"n": "4"}'),
        (Kind.JSON_SCHEMA, '{"type": "integer"}', "12", '"a"'),
        (Kind.CHOICE, ["yes", 'a "quoted"\nline\\', "字"], 'a "quoted"\nline\\', "no"),
        (Kind.REGEX, "[a-c]+[0-9]{2}", "abc12", "abc1"),
        (Kind.EBNF, 'root ::= "x" ("y")+', "xyy", "x"),
    ],
)
def test_each_kind(compiler, tokenizer, kind, value, good, bad):
    grammar = grammar_of(compiler, Structure(kind, value, "p"))
    assert accepts(grammar, tokenizer, good)
    assert not accepts(grammar, tokenizer, bad)


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        (Kind.JSON_SCHEMA, "{", "invalid_schema"),
        (Kind.JSON_SCHEMA, {"not": {}}, "invalid_schema"),
        (Kind.CHOICE, [], "invalid_value"),
        (Kind.CHOICE, ["a", ""], "invalid_value"),
        (Kind.REGEX, "(", "invalid_schema"),
        (Kind.EBNF, "root ::= (", "invalid_schema"),
    ],
)
def test_what_cannot_be_compiled_is_named(compiler, kind, value, code):
    with pytest.raises(RequestError) as refused:
        grammar_of(compiler, Structure(kind, value, "field"))
    assert (refused.value.code, refused.value.param) == (code, "field")


def test_nothing_asked_is_no_grammar(compiler):
    assert grammar_of(compiler, None) is None


def test_json_or_tool_calls(compiler, tokenizer):
    """Both parts keep their own rules: only the response is held to the length of a long string."""
    text = {"type": "string", "maxLength": 200}
    schema = {"type": "object", "properties": {"answer": text}, "required": ["answer"]}
    tool = Tool("run", "", {"type": "object", "properties": {"a": text, "n": {"type": "integer"}}})
    calls = FenceFormat().structural_tag([tool], ToolChoice(ChoiceMode.REQUIRED), True)
    grammar = grammar_of(compiler, Structure(Kind.JSON_SCHEMA, schema, "p", strict=True), calls)
    for good in ('{"answer": "yes"}', '```run\n{"n": 1}\n```', '```run\n{"n": 1}\n```\n```run\n{"n": 2}\n```'):
        assert accepts(grammar, tokenizer, good), good
    long = "word " * 60
    assert accepts(grammar, tokenizer, f'```run\n{{"a": "{long}"}}\n```')
    for bad in ("Hello.", '{"answer": 1}', f'{{"answer": "{long}"}}', '{"answer": "a"}\n```run\n{"n": 1}\n```'):
        assert not accepts(grammar, tokenizer, bad), bad


def test_what_was_compiled_is_found_again(tokenizer):
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)
    first = compiler.json_schema(NUMBER)
    assert compiler.json_schema(dict(NUMBER)).compiled is first.compiled
    assert compiler.json_schema(NUMBER, strict=False).compiled is not first.compiled
    assert compiler.cache.bytes > 0


class Compiled:
    def __init__(self, size):
        self.memory_size_bytes = size


def test_the_cache_is_bounded_by_bytes_and_drops_the_longest_unused():
    cache, made = CompiledCache(100), []

    def get(source, size=40):
        return cache.get("k", source, lambda: made.append(source) or Compiled(size))

    a = get("a")
    get("b")
    assert get("a") is a
    get("c")
    assert (cache.bytes, len(cache)) == (80, 2)
    assert get("a") is a
    get("b")
    get("huge", 101)
    assert (cache.bytes, len(cache)) == (80, 2)
    assert made == ["a", "b", "c", "b", "huge"]


CHAT = {"messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"structured_outputs": {"json": NUMBER}}, Kind.JSON_SCHEMA, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "a"}}, Kind.REGEX, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": ["a"]}}, Kind.CHOICE, "structured_outputs.choice"),
        ({"structured_outputs": {"grammar": 'root ::= "a"'}}, Kind.EBNF, "structured_outputs.grammar"),
        ({"structured_outputs": {"json_object": True}}, Kind.JSON_OBJECT, "structured_outputs.json_object"),
        ({"regex": "a"}, Kind.REGEX, "regex"),
        ({"ebnf": 'root ::= "a"'}, Kind.EBNF, "ebnf"),
        ({"json_schema": '{"type": "integer"}'}, Kind.JSON_SCHEMA, "json_schema"),
    ],
)
def test_the_fields_of_other_engines(fields, kind, param):
    for body in (ChatRequest(**CHAT, **fields), CompletionRequest(prompt="x", **fields)):
        assert (body.structure.kind, body.structure.param) == (kind, param)
    with pytest.raises(RequestError, match="can't be combined"):
        _ = ChatRequest(**CHAT, **fields, response_format={"type": "json_object"}).structure
    assert ChatRequest(**CHAT, **fields, response_format={"type": "text"}).structure.kind is kind


def test_a_structural_tag_of_the_clients_own_is_refused():
    with pytest.raises(RequestError, match="not supported"):
        _ = ChatRequest(**CHAT, structured_outputs={"structural_tag": {}}).structure
