"""Forced tokens and drafts under a grammar: the same answers with and without, over the stub model.

The vocabulary is the bytes, so that a text has one tokenisation and what is forced is exactly what would be sampled.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import Engine
from engine.model.stub import StubDecoder
from engine.sample.grammar import GrammarCompiler
from engine.sample.masks import masks_along
from engine.sample.params import SamplingParams
from engine.schedule.request import Finish, Request

EOS = 256
VOCAB = 257
CALL = 'root ::= ("call(\\"" name "\\", " [0-9]{1,3} ");\\n"){1,6} "done"\n'
CALL += 'name ::= "read_file" | "read_dir" | "write_file"'


class Bytes:
    """A tokenizer of single bytes, as far as the compiler asks."""

    def is_special(self, token):
        return token == EOS

    def token_bytes(self, token):
        return bytes([token]) if token < EOS else b""


class Text:
    """A `TextOutput` of bytes with one stop string."""

    def __init__(self, stop=None):
        self.stop, self.data, self.stopped = stop, b"", False

    def push(self, token):
        self.data += bytes([token])
        self.stopped = self.stop is not None and self.stop in self.data
        return chr(token)

    def finish(self):
        return ""


@pytest.fixture(scope="module")
def compiler():
    return GrammarCompiler(Bytes(), VOCAB, {EOS})


@pytest.fixture(scope="module")
def grammar(compiler):
    return compiler.ebnf(CALL)


def engine(jump_forward, drafts=False, **options):
    return Engine(
        StubDecoder(VOCAB),
        kv_tokens=options.pop("kv_tokens", 2048),
        dtype=torch.float64,
        drafts=drafts,
        jump_forward=jump_forward,
        check_every_step=True,
        **options,
    )


def request(grammar, seed=0, prompt=b"do it", stop=None, max_tokens=200, stop_ids=(EOS,), **params):
    sampling = SamplingParams(seed=seed, **{"temperature": 1.0, **params})
    return Request("", list(prompt), max_tokens, sampling, frozenset(stop_ids), grammar.start(), Text(stop))


def said(one):
    return bytes(token for token in one.output if token != EOS)


def run(core, *requests):
    events = []
    for one in requests:
        core.scheduler.submit(one)
    for _ in range(5000):
        events += core.step()
        if core.scheduler.idle:
            stats = core.cache.stats()
            assert stats.private == stats.leases == 0
            return events
    raise AssertionError("the engine makes no progress")


@settings(max_examples=40, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 999), min_size=1, max_size=4),
    temperature=st.sampled_from([0.0, 1.0, 2.0]),
    drafts=st.booleans(),
    max_tokens=st.sampled_from([1, 7, 30, 200]),
    stop=st.sampled_from([None, b"_f", b", 1", b"nothing"]),
    step_tokens=st.sampled_from([5, 64]),
    page_size=st.sampled_from([1, 16]),
)
def test_the_answers_are_the_same_with_and_without(
    grammar, seeds, temperature, drafts, max_tokens, stop, step_tokens, page_size
):
    def answers(jump, drafting):
        requests = [request(grammar, seed, stop=stop, max_tokens=max_tokens, temperature=temperature) for seed in seeds]
        core = engine(jump, drafting, step_tokens=step_tokens, page_size=page_size)
        run(core, *requests)
        return [(list(one.output), one.finish, one.error) for one in requests]

    assert answers(True, drafts) == answers(False, False)


def test_fewer_steps_and_whole_texts(grammar, compiler):
    plain, jumping = engine(False), engine(True)
    first, second = request(grammar, 3), request(grammar, 3)
    run(plain, first)
    events = run(jumping, second)
    assert first.output == second.output
    assert second.finish is Finish.STOP
    assert jumping.counters.steps < 0.5 * plain.counters.steps
    assert jumping.counters.forced_tokens > 0.5 * second.generated
    assert jumping.counters.generated_tokens == len(events) == second.generated
    assert "".join(event.text for event in events).encode() == said(second)
    assert second.grammar.finished


def test_stop_ids_count_among_forced_tokens(grammar):
    for jump in (True, False):
        one = request(grammar, stop_ids=(EOS, ord("(")))
        run(engine(jump), one)
        assert said(one) == b"call("
        assert one.finish is Finish.STOP


@pytest.mark.parametrize("logprobs", [None, 0, 2])
def test_forced_tokens_are_marked(grammar, logprobs):
    one = request(grammar, logprobs=logprobs)
    events = run(engine(True), one)
    assert [event.sampled.token for event in events] == list(one.output)
    forced = [event.sampled for event in events if event.sampled.forced]
    assert bytes(sampled.token for sampled in forced).startswith(b'all("')
    for sampled in forced:
        assert sampled.logprob == (None if logprobs is None else 0.0)
        assert sampled.top == (None if logprobs is None else [(sampled.token, 0.0)][:logprobs])
    assert not events[0].sampled.forced


def test_a_biased_token_is_left_to_the_model(grammar):
    one = request(grammar, logit_bias={ord("("): -1.0})
    events = run(engine(True), one)
    assert not any(event.sampled.forced for event in events if event.sampled.token == ord("("))


def test_forced_tokens_survive_memory_pressure(compiler):
    grammar = compiler.ebnf(CALL.replace("{1,6}", "{6,6}"))

    def answers(**options):
        requests = [request(grammar, seed, prompt=b"p%d " % seed * 12) for seed in range(6)]
        core = engine(True, drafts=True, **options)
        run(core, *requests)
        return [list(one.output) for one in requests], core.scheduler.retractions

    roomy, _ = answers(kv_tokens=8192)
    tight, retracted = answers(kv_tokens=300, step_tokens=32)
    assert tight == roomy
    assert retracted > 0


def test_drafts_are_verified_under_a_grammar(grammar):
    core = engine(False, drafts=True)
    first = request(grammar, 3, temperature=0.0)
    run(core, first)
    again = request(grammar, 3, temperature=0.0)
    run(core, again)
    assert again.output == first.output
    assert core.counters.accepted_tokens > 0.3 * again.generated


def test_masks_along_drafts_leave_the_state_where_it_was(compiler, grammar):
    words = compiler.mask_words
    state = grammar.start()
    masks = masks_along(state, list(b"calx("), words)
    assert [mask is None for mask in masks] == [False] * 4 + [True] * 2
    fresh = grammar.start()
    for mask, token in zip(masks, b"call", strict=False):
        wanted = torch.full((words,), -1, dtype=torch.int32)
        fresh.fill(wanted)
        assert torch.equal(mask, wanted)
        assert fresh.accept(token)
    assert bytes(state.forced()) == b'call("'
    ended = compiler.regex("ab").start()
    assert [mask is None for mask in masks_along(ended, [*b"ab", EOS, 65], words)] == [False, False, False, True, True]
    assert bytes(ended.forced()) == b"ab"


class Refusing:
    """A grammar that takes back what its mask allowed."""

    finished = False

    def fill(self, mask):
        mask.fill_(-1)

    def accept(self, token):
        return False

    def rollback(self, tokens):
        raise AssertionError

    def forced(self):
        return [1, 2]


def test_a_refused_token_ends_its_own_request_only(grammar):
    broken, other, alone = request(grammar), request(grammar, 5), request(grammar, 5)
    broken.grammar = Refusing()
    run(engine(True), broken, other)
    run(engine(True), alone)
    assert (broken.finish, broken.error) == (Finish.ERROR, "the grammar refused a sampled token")
    assert other.output == alone.output
    assert other.finish is Finish.STOP
