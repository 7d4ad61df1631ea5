"""The sampler: right distributions, and a token that depends on nothing but its own row."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import RequestError
from engine.sample.noise import mix, uniform
from engine.sample.params import SamplingParams
from engine.sample.sampler import NOTHING_ALLOWED, Row, sample

VOCAB = 1000


def logits_of(seed: int, rows: int = 1, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3


def bitmask(allowed: set[int], vocab: int = VOCAB) -> torch.Tensor:
    words = [0] * ((vocab + 31) // 32)
    for token in allowed:
        words[token // 32] |= 1 << (token % 32)
    return torch.tensor(words, dtype=torch.int64).to(torch.int32)


def one(logits: torch.Tensor, position: int = 0, **params) -> int:
    return sample(logits.clone().view(1, -1), [Row(SamplingParams(**params), position)])[0].token


any_params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 0.8, 1.5]),
    top_k=st.sampled_from([0, 1, 5, 5000]),
    top_p=st.sampled_from([1.0, 0.95, 0.3, 0.0]),
    min_p=st.sampled_from([0.0, 0.1]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    frequency_penalty=st.sampled_from([0.0, -0.5]),
    repetition_penalty=st.sampled_from([1.0, 1.2]),
    seed=st.integers(-(2**63), 2**64),
    logit_bias=st.dictionaries(st.integers(-1, VOCAB + 1), st.sampled_from([-100.0, 5.0]), max_size=2),
    logprobs=st.sampled_from([None, 0, 3]),
)
ids = st.lists(st.integers(0, VOCAB - 1), max_size=5)
masks = st.none() | st.sets(st.integers(0, VOCAB - 1), max_size=5).map(bitmask)
any_row = st.builds(
    Row,
    params=any_params,
    position=st.integers(0, 5000),
    prompt_ids=ids,
    output_ids=ids,
    mask=masks,
)


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(any_row, min_size=1, max_size=6), data=st.data())
def test_a_row_is_independent_of_its_neighbours_and_its_place(rows, data):
    logits = logits_of(1, len(rows))
    together = sample(logits.clone(), rows)
    order = data.draw(st.permutations(range(len(rows))))
    shuffled = sample(logits[list(order)].clone(), [rows[index] for index in order])
    for place, index in enumerate(order):
        assert shuffled[place] == together[index]
        assert sample(logits[index : index + 1].clone(), [rows[index]]) == [together[index]]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), position=st.integers(0, 9))
def test_one_candidate_is_greedy(seed, position):
    logits = logits_of(seed)
    best = int(logits.argmax())
    for params in ({"temperature": 0}, {"top_k": 1}, {"top_p": 0}, {"min_p": 1}, {"temperature": 1e-4}):
        assert one(logits, position, seed=seed, **params) == best


def expected(logits: torch.Tensor, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0) -> torch.Tensor:
    """The plain definition, by sorting everything in double precision."""
    probabilities = torch.softmax(logits.double() / temperature, -1)
    order = probabilities.argsort(descending=True)
    kept, mass = [], 0.0
    if top_k:
        order = order[:top_k]
    total = float(probabilities[order].sum())
    for token in order.tolist():
        if mass >= top_p * total:
            break
        kept.append(token)
        mass += float(probabilities[token])
    kept = [token for token in kept if probabilities[token] >= min_p * probabilities.max()]
    result = torch.zeros_like(probabilities)
    result[kept] = probabilities[kept]
    return result / result.sum()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 0.7},
        {"top_p": 0.9},
        {"top_p": 0.999, "temperature": 1.3},
        {"top_k": 10},
        {"top_k": 10, "top_p": 0.8},
        {"min_p": 0.05},
        {"top_k": 40, "top_p": 0.95, "min_p": 0.02, "temperature": 0.8},
    ],
    ids=str,
)
def test_the_distribution_is_the_defined_one(params):
    logits = logits_of(7, vocab=60)[0]
    wanted = expected(logits, **params)
    draws = 4000
    rows = [Row(SamplingParams(seed=11, **params), position) for position in range(draws)]
    tokens = torch.tensor([s.token for s in sample(logits.repeat(draws, 1), rows)])
    counts = torch.bincount(tokens, minlength=60).double()
    assert counts[wanted == 0].sum() == 0
    usual = wanted * draws >= 5
    wanted_counts = torch.cat([wanted[usual], wanted[~usual].sum().view(1)]) * draws
    got_counts = torch.cat([counts[usual], counts[~usual].sum().view(1)])
    chi_square = float(((got_counts - wanted_counts) ** 2 / wanted_counts.clamp(min=1)).sum())
    freedom = len(wanted_counts) - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * max(freedom, 1))


def test_each_choice_and_each_position_has_noise_of_its_own():
    logits = torch.zeros(VOCAB)
    params = SamplingParams(seed=3)
    tokens = [one(logits, position, seed=3) for position in range(50)]
    assert len(set(tokens)) > 40
    seeds = [params.for_choice(index).seed for index in range(50)]
    assert seeds[0] == 3
    assert len(set(seeds)) == 50
    free = SamplingParams()
    assert free.for_choice(0).seed != free.for_choice(0).seed


def test_the_noise_is_uniform_and_pure():
    numbers = [uniform(seed, position) for seed in range(40) for position in range(50)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) == len(numbers)
    assert abs(sum(numbers) / len(numbers) - 0.5) < 0.03
    assert uniform(-5, 3) == uniform(-5, 3)
    assert 0 <= mix(2**70, 1) < 2**63


@pytest.mark.parametrize("params", [{"temperature": 0}, {}, {"top_k": 5}, {"top_p": 0.9}], ids=str)
def test_a_mask_is_respected(params):
    logits = logits_of(2)
    allowed = {int(logits.argmin()), 31, 32, VOCAB - 1}
    for position in range(20):
        rows = [Row(SamplingParams(seed=1, **params), position, mask=bitmask(allowed))]
        assert sample(logits.clone(), rows)[0].token in allowed
        rows = [Row(SamplingParams(seed=1, **params), position, mask=bitmask({7}))]
        assert sample(logits.clone(), rows)[0].token == 7
    nothing = [Row(SamplingParams(seed=1, logprobs=2, **params), 0, mask=bitmask(set()))]
    assert sample(logits.clone(), nothing)[0].token == NOTHING_ALLOWED


def test_a_short_mask_allows_nothing_beyond_it():
    logits = torch.zeros(1, 100)
    logits[0, 99] = 50
    assert sample(logits, [Row(SamplingParams(temperature=0), 0, mask=bitmask({5}, 64))])[0].token == 5


@settings(max_examples=60, deadline=None)
@given(prompt=ids, output=ids, presence=st.floats(-2, 2), frequency=st.floats(-2, 2), rep=st.floats(0.5, 2))
def test_penalties_equal_a_plain_reference(prompt, output, presence, frequency, rep):
    logits = logits_of(5)[0]
    wanted = logits.tolist()
    for token in {*prompt, *output}:
        wanted[token] = wanted[token] / rep if wanted[token] > 0 else wanted[token] * rep
    for token in set(output):
        wanted[token] -= presence + frequency * output.count(token)
    wanted[3] += 2.0
    params = SamplingParams(
        temperature=0,
        presence_penalty=presence,
        frequency_penalty=frequency,
        repetition_penalty=rep,
        logit_bias={3: 2.0},
    )
    changed = logits.clone().view(1, -1)
    token = sample(changed, [Row(params, 0, prompt, output)])[0].token
    assert torch.allclose(changed[0], torch.tensor(wanted), atol=1e-4)
    assert token == int(changed[0].argmax())


def test_logprobs_are_the_models_own():
    logits = logits_of(9)
    params = SamplingParams(temperature=0, logit_bias={5: 100.0}, logprobs=3)
    (sampled,) = sample(logits.clone(), [Row(params, 0)])
    wanted = torch.log_softmax(logits[0], -1)
    assert sampled.token == 5
    assert sampled.logprob == pytest.approx(float(wanted[5]))
    values, best = wanted.topk(3)
    assert [token for token, _ in sampled.top] == best.tolist()
    assert [value for _, value in sampled.top] == pytest.approx(values.tolist())
    assert sample(logits, [Row(SamplingParams(temperature=0), 0)])[0].top is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", "hot"),
        ("top_p", 1.1),
        ("top_k", -1),
        ("min_p", 2),
        ("presence_penalty", 3),
        ("repetition_penalty", 0),
        ("logit_bias", {1: 1000}),
        ("logprobs", 21),
    ],
)
def test_values_out_of_range_are_named(field, value):
    with pytest.raises(RequestError) as caught:
        SamplingParams(**{field: value})
    assert (caught.value.code, caught.value.param) == ("invalid_value", field)


@pytest.mark.parametrize("bias", [{}, {7: 100.0}])
def test_an_end_waits_for_the_least_tokens(bias):
    """Exactly so many, whatever speaks for the end; drafts count, since each row knows what it would follow."""
    logits = logits_of(1)
    logits[0, 7], logits[0, 9] = 90.0, 80.0
    params = SamplingParams(temperature=0.0, min_tokens=3, ends=frozenset({7, VOCAB + 5}), logit_bias=bias)
    rows = [Row(params, 0, output_ids=range(count)) for count in range(5)]
    assert [it.token for it in sample(logits.repeat(5, 1), rows)] == [9, 9, 9, 7, 7]


def test_a_grammar_may_leave_nothing_but_the_end():
    params = SamplingParams(temperature=0.0, min_tokens=3, ends=frozenset({7}))
    assert sample(logits_of(1), [Row(params, 0, mask=bitmask({7}))])[0].token == 7
