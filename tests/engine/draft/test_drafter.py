"""A drafter against an oracle that knows the output: what the engine's verification does, without a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.draft.config import DraftConfig
from engine.draft.drafter import Drafter
from engine.draft.memory import DraftMemory

texts = st.lists(st.integers(0, 3), max_size=60)


@dataclass
class Run:
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: list[int] = field(default_factory=list)


def generate(drafter, output, limit=16):
    """Generates `output`: in each step the accepted draft and one token more."""
    run = Run()
    while len(run.emitted) < len(output):
        rest = output[len(run.emitted) :]
        draft = drafter.propose(min(limit, len(rest) - 1))
        assert len(draft) <= min(limit, len(rest) - 1)
        accepted = 0
        while accepted < len(draft) and draft[accepted] == rest[accepted]:
            accepted += 1
        drafter.verified(len(draft), accepted)
        drafter.append(rest[: accepted + 1])
        run.emitted += [*draft[:accepted], rest[accepted]]
        run.steps += 1
        run.drafted += len(draft)
        run.accepted += accepted
    return run


def source_text(random, size):
    """Tokens with the repetitions of program text: lines made of a small stock of phrases."""
    phrases = [[random.randrange(5_000) for _ in range(random.randint(2, 6))] for _ in range(200)]
    ids = []
    while len(ids) < size:
        ids += [*random.choice(phrases), random.randrange(50)]
    return ids[:size]


def edited(random, ids, rate):
    """`ids` with a share of tokens replaced, inserted or left out."""
    result = []
    for token in ids:
        change = random.choice(["replace", "insert", "delete"]) if random.random() < rate else None
        result += [] if change == "delete" else [90_000] if change == "replace" else [token]
        result += [90_001] if change == "insert" else []
    return result


@given(texts, texts, texts, st.integers(0, 9))
def test_the_output_is_what_it_is_without_drafts(prompt, earlier, output, limit):
    memory = DraftMemory()
    memory.remember("tenant", earlier)
    assert generate(Drafter(memory, "tenant", prompt), output, limit).emitted == output


def test_a_replayed_text_takes_few_steps():
    text = source_text(Random(1), 2_000)
    run = generate(Drafter(DraftMemory(), "tenant", [*text, 1, 2, *text[:3]]), text[3:])
    assert run.accepted > 0.95 * run.drafted
    assert run.steps < len(text) / 10


@pytest.mark.parametrize(("rate", "acceptance", "faster"), [(0.01, 0.8, 5.0), (0.03, 0.65, 3.0), (0.1, 0.4, 1.6)])
def test_replayed_edits_are_mostly_accepted(rate, acceptance, faster):
    random = Random(2)
    text = source_text(random, 2_000)
    prompt = source_text(random, 2_000) + text + source_text(random, 500)
    output = edited(random, text, rate)
    run = generate(Drafter(DraftMemory(), "tenant", prompt), output)
    assert run.accepted > acceptance * run.drafted
    assert run.steps < len(output) / faster


def test_drafts_come_from_the_outputs_of_other_requests():
    text = source_text(Random(3), 500)
    memory = DraftMemory()
    memory.remember("tenant", text)
    assert generate(Drafter(memory, "tenant", [1, 2, 3]), text).steps < len(text) / 5
    alone = generate(Drafter(DraftMemory(), "tenant", [1, 2, 3]), text)
    other = generate(Drafter(memory, "another", [1, 2, 3]), text)
    assert (other.steps, other.drafted) == (alone.steps, alone.drafted)


def test_the_longer_match_wins_and_the_own_text_breaks_ties():
    memory = DraftMemory()
    memory.remember("tenant", [5, 6, 7, 8, 21, 22, 23])
    assert Drafter(memory, "tenant", [6, 7, 8, 11, 12, 13, 6, 7, 8]).propose(1) == [11]
    assert Drafter(memory, "tenant", [6, 7, 8, 11, 12, 13, 5, 6, 7, 8]).propose(1) == [21]


def test_a_draft_is_no_longer_than_its_match():
    drafter = Drafter(DraftMemory(), "tenant", [1, 2, 3, *range(10, 30), 1, 2, 3], DraftConfig(row_cost=0.0))
    assert drafter.propose(16) == [10, 11, 12]


def test_noise_with_chance_matches_soon_stops_the_drafts_and_replay_starts_them_again():
    random = Random(4)
    drafter = Drafter(DraftMemory(), "tenant", [random.randrange(12) for _ in range(4_000)])
    noise = generate(drafter, [random.randrange(12) for _ in range(4_000)])
    assert noise.drafted < 0.05 * 4_000
    text = source_text(random, 1_500)
    drafter.append(text)
    assert generate(drafter, text).steps < len(text) / 5


def test_text_without_repetition_is_never_drafted():
    run = generate(Drafter(DraftMemory(), "tenant", range(1_000)), list(range(1_000, 2_000)))
    assert (run.drafted, run.steps) == (0, 1_000)


def test_a_proposal_that_is_not_verified_counts_for_nothing():
    drafter = Drafter(DraftMemory(), "tenant", [7] * 50)
    first = drafter.propose(16)
    for _ in range(50):
        drafter.propose(16)
        drafter.verified(0, 0)
    assert drafter.propose(16) == first != []


def test_nothing_is_proposed_without_room():
    drafter = Drafter(DraftMemory(), "tenant", [7] * 50)
    assert (drafter.propose(0), drafter.propose(-1)) == ([], [])
    drafter.verified(0, 0)


@pytest.mark.parametrize(("drafted", "accepted"), [(2, 3), (0, 1), (2, -1)])
def test_more_accepted_than_drafted_is_an_error(drafted, accepted):
    drafter = Drafter(DraftMemory(), "tenant", [7] * 50)
    drafter.propose(4)
    with pytest.raises(ValueError, match="drafted"):
        drafter.verified(drafted, accepted)
