from __future__ import annotations

import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.draft
import engine.draft.grams
from engine.draft.config import DraftConfig
from engine.draft.suffix import SuffixIndex

EXHAUSTIVE = DraftConfig(min_match=2, max_match=6, max_candidates=10_000)
# few different tokens, so that there are many repetitions; now and then a long one
repetitive = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), max_size=12)


def agreement(ids, position):
    """How many tokens before `position` are those at the end of `ids`."""
    length = 0
    while length < position and ids[position - 1 - length] == ids[-1 - length]:
        length += 1
    return length


def occurrences(ids, min_match):
    """Each earlier position whose preceding tokens are the text's end, with the length of the match."""
    return {p: agreement(ids, p) for p in range(1, len(ids)) if agreement(ids, p) >= min_match}


def continued(ids, position, count):
    """The tokens from `position` on, where the text ends those that were just copied."""
    ids = list(ids)
    return [ids.append(ids[position + i]) or ids[-1] for i in range(count)]


@given(repetitive, st.lists(st.booleans(), min_size=12, max_size=12))
def test_finds_the_longest_earlier_suffix(chunks, ask):
    index, ids = SuffixIndex(config=EXHAUSTIVE), []
    for chunk, asked in zip(chunks, ask, strict=False):
        index.extend(chunk)
        ids += chunk
        if not asked:
            continue  # a match may be followed over several chunks
        found, match = occurrences(ids, 2), index.match()
        assert (match is None) == (not found)
        if match:
            assert min(match.length, 6) == min(max(found.values()), 6)
            assert match.length <= found[match.position]
            assert index.propose(9) == continued(ids, match.position, 9)


@given(repetitive)
def test_takes_the_most_recent_of_equally_long_matches(chunks):
    ids = [token for chunk in chunks for token in chunk]
    found = {position: min(length, 6) for position, length in occurrences(ids, 2).items()}
    match = SuffixIndex(ids, EXHAUSTIVE).match()
    expected = max(found, key=lambda position: (found[position], position), default=None)
    assert (match and match.position) == expected


@given(repetitive)
def test_token_by_token_finds_matches_as_long_as_at_once(chunks):
    ids = [token for chunk in chunks for token in chunk]
    index = SuffixIndex(config=EXHAUSTIVE)
    for token in ids:
        index.append(token)
        index.match()
    at_once = SuffixIndex(ids, EXHAUSTIVE)
    assert len(index) == len(at_once) == len(ids)
    assert (index.match() is None) == (at_once.match() is None)
    if match := index.match():
        assert min(match.length, 6) == at_once.match().length


@given(repetitive, st.integers(1, 3))
def test_with_few_candidates_a_match_is_still_real(chunks, candidates):
    ids = [token for chunk in chunks for token in chunk]
    found = occurrences(ids, 2)
    recent = sorted(found, reverse=True)[:candidates]
    match = SuffixIndex(ids, DraftConfig(min_match=2, max_match=6, max_candidates=candidates)).match()
    assert (match and match.length) == max((min(found[p], 6) for p in recent), default=None)


def test_proposes_what_followed():
    index = SuffixIndex([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3])
    assert index.propose(4) == [4, 5, 6, 7]
    index.extend([4, 5])
    assert index.propose(2) == [6, 7]
    index.append(99)
    assert index.propose(2) == []


def test_a_period_goes_on_beyond_the_end():
    assert SuffixIndex([1, 2, 3, 4] * 2).propose(10) == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert SuffixIndex([7] * 5).propose(3) == [7, 7, 7]


@pytest.mark.parametrize("ids", [[], [1], [1, 1], [1, 2, 3], [5, 1, 2, 6, 1, 2]])
def test_proposes_nothing_without_a_match_of_min_length(ids):
    assert SuffixIndex(ids).propose(8) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_proposes_nothing_where_nothing_is_asked_for(limit):
    assert SuffixIndex([7] * 9).propose(limit) == []


def test_grams_with_the_same_hash_are_not_taken_for_each_other(monkeypatch):
    monkeypatch.setattr(engine.draft.grams, "hash", lambda gram: 0, raising=False)
    assert SuffixIndex([1, 2, 3, 4, 5, 9, 2, 3]).propose(4) == []
    assert SuffixIndex([1, 2, 3, 4, 5, 6, 1, 2, 3]).propose(2) == [4, 5]


def lines_run(action):
    """How many lines of the package run: a measure of work that no clock disturbs."""
    count, folder = 0, engine.draft.__path__[0]

    def local(frame, event, arg):
        nonlocal count
        count += event == "line"
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: local if frame.f_code.co_filename.startswith(folder) else None)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def feed(tokens):
    index = SuffixIndex()
    for token in tokens:
        index.append(token)
        index.propose(16)


random = Random(7)
TEXTS = {
    "equal": [5] * 20_000,
    "random": [random.randrange(50_000) for _ in range(20_000)],
    "one gram, other neighbours": [t for _ in range(5_000) for t in (1, 2, 3, random.randrange(50_000))],
    "two letters": [random.randrange(2) for _ in range(20_000)],
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_work_is_linear(text):
    quarter, whole = lines_run(lambda: feed(text[:5_000])), lines_run(lambda: feed(text))
    assert whole < 4.4 * quarter
    # 16 candidates of at most 32 tokens would be the worst, at each token
    assert whole < 200 * len(text)


def test_building_runs_few_lines_for_a_token():
    assert lines_run(lambda: SuffixIndex(TEXTS["random"])) < 4 * 20_000
