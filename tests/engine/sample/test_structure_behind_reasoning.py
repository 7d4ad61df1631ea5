"""A structure binds behind reasoning, which is free text up to its end, and a parser tells the two apart again."""

from __future__ import annotations

import random

import pytest
import torch

from engine.output.dialect import Dialect
from engine.output.reasoning import Reasoning
from engine.output.tools.hermes import HermesFormat
from engine.output.tools.tool import ChoiceMode, Tool, ToolChoice
from engine.sample.grammar import GrammarCompiler
from engine.sample.structured import Kind, Structure, grammar_of

EOS = 2
THINK = Reasoning("<think>", "</think>")
DIALECT = Dialect(HermesFormat(), THINK)
OPEN, UNOPENED, CLOSED = "assistant\n<think>\n", "assistant\n", "assistant\n<think>\n\n</think>\n\n"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
KINDS = [
    (Kind.JSON_OBJECT, True, '{"a": [1]}', "[1]"),
    (Kind.JSON_SCHEMA, NUMBER, '{"n": 4}', '{"n": "4"}'),
    (Kind.JSON_SCHEMA, {"type": "string", "maxLength": 3}, '"abc"', '"abcd"'),
    (Kind.CHOICE, ["yes", "字"], "字", "no"),
    (Kind.REGEX, "[a-c]+[0-9]{2}", "abc12", "abc1"),
    (Kind.EBNF, 'root ::= "x" ("y")+', "xyy", "x"),
]
THOUGHTS = ["", "hm", 'n is 4: {"n": "4"} </th <b>\n\n字', "x" * 200]


@pytest.fixture(scope="module")
def compiler(tokenizer):
    return GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)


def accepts(grammar, tokenizer, text):
    state = grammar.start()
    return all(state.accept(token) for token in tokenizer.encode(text)) and state.accept(EOS)


@pytest.mark.parametrize(("kind", "value", "good", "bad"), KINDS, ids=lambda part: str(part)[:20])
def test_each_kind_behind_reasoning(compiler, tokenizer, kind, value, good, bad):
    structure = Structure(kind, value, "p")
    opened, unopened, closed = (
        grammar_of(compiler, structure, room=THINK.room(prompt)) for prompt in (OPEN, UNOPENED, CLOSED)
    )
    for thought in THOUGHTS:
        for space in ("", "\n", "\n\n"):
            rest = f"{thought}\n</think>{space}"
            assert accepts(opened, tokenizer, rest + good)
            assert accepts(unopened, tokenizer, f"<think>\n{rest}{good}")
            assert not accepts(opened, tokenizer, rest + bad)
            assert not accepts(unopened, tokenizer, f"<think>\n{rest}{bad}")
            assert not accepts(closed, tokenizer, f"<think>\n{rest}{good}")
            parser = DIALECT.parser((), begun=True)
            parsed = parser.parse(rest + good)
            assert (parsed.reasoning, parsed.content) == (thought, good)
    assert accepts(unopened, tokenizer, good)
    assert accepts(closed, tokenizer, good)
    for grammar in (opened, unopened, closed):
        for text in (bad, f"hm {good}", f"hm</think>\n\n\n{good}", f"hm</think>{good}</think>", "hm</think>", "hm"):
            assert not accepts(grammar, tokenizer, text), text
    assert not accepts(opened, tokenizer, good)


def test_a_structure_that_begins_with_line_feeds_keeps_them(compiler, tokenizer):
    structure = Structure(Kind.REGEX, r"\n{0,3}ab?", "p")
    grammar = grammar_of(compiler, structure, room=THINK.room(OPEN))
    for text in ("a", "\na", "\n\n\nab"):
        assert accepts(grammar, tokenizer, f"hm</think>\n\n{text}")
        assert DIALECT.parser((), begun=True).parse(f"hm</think>\n\n{text}").content == text
    assert not accepts(grammar, tokenizer, "hm</think>a")


def test_reasoning_then_the_structure_or_calls(compiler, tokenizer):
    tool = Tool("run", "", NUMBER)
    calls = HermesFormat().structural_tag([tool], ToolChoice(ChoiceMode.REQUIRED), True)
    grammar = grammar_of(compiler, Structure(Kind.JSON_SCHEMA, NUMBER, "p"), calls, THINK.room(OPEN))
    call = HermesFormat().render_call("run", '{"n": 4}')
    for good in ('{"n": 4}', call, f"{call}\n{call}"):
        assert accepts(grammar, tokenizer, f"hm\n</think>\n\n{good}")
    for bad in ("Hello.", f'{{"n": 4}}\n{call}', '{"n": "4"}'):
        assert not accepts(grammar, tokenizer, f"hm\n</think>\n\n{bad}")


def test_nothing_is_forced_while_it_thinks_and_the_structure_is_behind(compiler, tokenizer):
    structure = Structure(Kind.REGEX, "def add\\(a, b\\):(x|y)", "p")
    state = grammar_of(compiler, structure, room=THINK.room(OPEN)).start()
    for token in tokenizer.encode("well,"):
        assert state.forced() == []
        assert state.accept(token)
    assert not state.complete
    for token in tokenizer.encode(" yes</think>\n\n"):
        assert state.accept(token)
    forced = state.forced()
    assert len(forced) > 2
    assert "def add(a, b):".startswith(tokenizer.decode(forced))
    assert all(state.accept(token) for token in forced)
    state.rollback(len(forced))
    assert state.forced() == forced
    assert all(state.accept(token) for token in tokenizer.encode("def add(a, b):x"))
    assert state.complete
    assert not state.finished
    assert state.accept(EOS)
    assert state.finished


@pytest.mark.parametrize("prompt", [OPEN, UNOPENED, CLOSED])
def test_what_is_generated_ends_in_the_structure(compiler, tokenizer, prompt):
    """Random allowed tokens with a taste for marks: whatever comes out, its content alone is the structure."""
    structure = Structure(Kind.CHOICE, ["yes", "no"], "p")
    grammar, ended = grammar_of(compiler, structure, room=THINK.room(prompt)), set()
    marks = [tokenizer.encode(mark) for mark in ("<think>", "</think>", "\n")]
    for seed in range(12):
        rng, state, ids = random.Random(seed), grammar.start(), []
        while not state.finished and len(ids) < 200:
            ahead = state.fork()
            wanted = [mark for mark in marks if all(ahead.fork().accept(token) for token in mark[:1])]
            picked = rng.choice(wanted) if wanted and rng.random() < 0.4 else [rng.choice(allowed(compiler, state))]
            for token in picked:
                if not state.accept(token):
                    break
                ids.append(token)
        if not state.finished:
            continue
        text = b"".join(map(tokenizer.token_bytes, ids[:-1])).decode("utf-8", "replace")
        parsed = DIALECT.parser((), DIALECT.begun(prompt)).parse(text)
        assert parsed.content in ("yes", "no")
        ended.add(bool(parsed.reasoning))
    assert (True in ended) is (prompt != CLOSED)


def allowed(compiler, state) -> list[int]:
    mask = torch.zeros(compiler.mask_words, dtype=torch.int32)
    state.fill(mask)
    bits = (mask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32)) & 1
    return bits.flatten().nonzero().flatten().tolist()


def test_it_is_compiled_once(tokenizer):
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)
    structure = Structure(Kind.JSON_SCHEMA, NUMBER, "p")
    first, again, other = (grammar_of(compiler, structure, room=THINK.room(p)) for p in (OPEN, OPEN, UNOPENED))
    assert first.compiled is again.compiled
    assert first.compiled is not other.compiled
