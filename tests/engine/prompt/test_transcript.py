"""Token-exact history: what was generated comes back as the same ids, and nothing else does."""

from __future__ import annotations

import threading
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompt.transcript import History, Transcript

PROMPT = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
NEXT = "<|im_end|>\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n"


class Counting:
    """A tokenizer that records what it was asked to encode."""

    def __init__(self, tokenizer):
        self.specials = tokenizer.specials
        self.encoded: list[str] = []
        self._tokenizer = tokenizer

    def encode(self, text):
        self.encoded.append(text)
        return self._tokenizer.encode(text)


def odd_turn(tokenizer) -> tuple[str, list[int]]:
    """A turn whose tokens aren't the ones that the tokenizer would choose."""
    turn = "a\n\n"
    ids = [*tokenizer.encode("a"), 198, 198]
    assert tokenizer.decode(ids) == turn
    assert tokenizer.encode(turn) != ids
    return turn, ids


def test_generated_ids_come_back_verbatim(tokenizer):
    turn, ids = odd_turn(tokenizer)
    transcript, counting = Transcript(1000), Counting(tokenizer)
    prompt = tokenizer.encode(PROMPT)
    transcript.remember("a", PROMPT + turn, prompt + ids)
    result = transcript.encode("a", PROMPT + turn + NEXT, counting)
    assert result.ids == prompt + ids + tokenizer.encode(NEXT)
    assert counting.encoded == [NEXT]  # the old text is not tokenised again


def test_an_edited_turn_gets_the_ordinary_encoding(tokenizer):
    turn, ids = odd_turn(tokenizer)
    transcript = Transcript(1000)
    transcript.remember("a", PROMPT + turn, tokenizer.encode(PROMPT) + ids)
    for text in (PROMPT + turn + "!" + NEXT, PROMPT.replace("hi", "ho") + turn + NEXT):
        assert transcript.encode("a", text, tokenizer).ids == tokenizer.encode(text)


def test_the_longest_remembered_beginning_counts(tokenizer):
    turn, ids = odd_turn(tokenizer)
    transcript = Transcript(1000)
    first = tokenizer.encode(PROMPT) + ids
    transcript.remember("a", PROMPT + turn, first)
    second = transcript.encode("a", PROMPT + turn + NEXT, tokenizer)
    transcript.remember("a", PROMPT + turn + NEXT + turn, second.ids + ids, after=second.turn)
    third = transcript.encode("a", PROMPT + turn + NEXT + turn + NEXT, tokenizer)
    assert third.ids == second.ids + ids + tokenizer.encode(NEXT)
    assert transcript.tokens == len(second.ids + ids)  # a shared beginning is kept once


def test_prompts_are_counted_by_what_is_known_of_their_answers(tokenizer):
    turn, ids = odd_turn(tokenizer)
    transcript = Transcript(1000)
    first = transcript.remember("a", PROMPT + turn, tokenizer.encode(PROMPT) + ids)
    two = PROMPT + turn + NEXT + turn
    transcript.encode("a", two + NEXT, tokenizer, answers=2)  # the second answer came from elsewhere
    transcript.remember("a", two, transcript.encode("a", two, tokenizer).ids, after=first, answers=2)
    transcript.encode("a", PROMPT, tokenizer, answers=0)
    transcript.encode("a", PROMPT + turn + NEXT, tokenizer, answers=1)  # another branch of the same chat
    transcript.encode("a", two + NEXT, tokenizer, answers=2)
    transcript.encode("a", two + "!" + NEXT, tokenizer, answers=2)
    transcript.encode("a", "?" + two + NEXT, tokenizer, answers=2)
    assert transcript.counts == {History.NEW: 1, History.SPLICED: 2, History.EDITED: 1, History.UNKNOWN: 2}


def test_tenants_do_not_share(tokenizer):
    turn, ids = odd_turn(tokenizer)
    transcript = Transcript(1000)
    transcript.remember("a", PROMPT + turn, tokenizer.encode(PROMPT) + ids)
    text = PROMPT + turn + NEXT
    assert transcript.encode("b", text, tokenizer).ids == tokenizer.encode(text)


def test_the_oldest_turn_is_forgotten_first(tokenizer):
    transcript = Transcript(10)
    transcript.remember("a", "one", [1, 2, 3, 4])
    transcript.remember("a", "two", [5, 6, 7, 8])
    assert transcript.encode("a", "one", tokenizer).ids == [1, 2, 3, 4]  # used: now the newest
    transcript.remember("a", "three", [9, 9, 9, 9])
    assert transcript.tokens == 8
    assert transcript.encode("a", "two", tokenizer).ids == tokenizer.encode("two")
    assert transcript.encode("a", "one", tokenizer).ids == [1, 2, 3, 4]
    transcript.remember("a", "too long", list(range(11)))
    assert (len(transcript), transcript.tokens) == (2, 8)
    transcript.remember("a", "one", [4, 3])
    assert (len(transcript), transcript.tokens) == (2, 6)


def test_a_turn_is_never_forgotten_before_those_behind_it(tokenizer):
    transcript = Transcript(10)
    first = transcript.remember("a", "1", [1, 2, 3])
    second = transcript.remember("a", "12", [1, 2, 3, 4, 5], after=first)
    transcript.remember("a", "123", [1, 2, 3, 4, 5, 6], after=second)
    assert transcript.encode("a", "1", tokenizer).ids == [1, 2, 3]
    assert transcript.encode("a", "12", tokenizer).turn is second
    transcript.remember("a", "other", [7, 8, 9, 10, 11])  # takes the place of the last turn, used longest ago
    assert (len(transcript), transcript.tokens) == (3, 10)
    assert transcript.encode("a", "12", tokenizer).ids == [1, 2, 3, 4, 5]
    transcript.remember("a", "1", [3, 2, 1])  # the same text in other tokens: those behind it keep theirs
    assert transcript.encode("a", "12", tokenizer).ids == [1, 2, 3, 4, 5]
    assert transcript.encode("a", "1", tokenizer).ids == [3, 2, 1]
    transcript.remember("a", "full", list(range(10)))
    assert (len(transcript), transcript.tokens) == (1, 10)


def test_using_a_turn_uses_those_before_it(tokenizer):
    transcript = Transcript(10)
    first = transcript.remember("a", "1", [1, 2, 3])
    second = transcript.remember("a", "12", [1, 2, 3, 4, 5], after=first)
    transcript.remember("a", "other", [7, 8, 9])
    assert transcript.encode("a", "12", tokenizer).turn is second
    transcript.remember("a", "more", [6, 6, 6, 6])
    assert transcript.encode("a", "1", tokenizer).turn is first
    assert transcript.encode("a", "other", tokenizer).turn is None


class Words:
    """A tokenizer without special tokens: a text is known as a whole or not at all."""

    specials: ClassVar[dict[str, int]] = {}

    def encode(self, text):
        return [ord(character) for character in text]


def listed_turns(transcript, namespace=None) -> list:
    turns = transcript._turns
    return [turn for name in list(turns) if namespace in (None, name) for turn in turns[name].values()]


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.text("ab", max_size=4), st.text("ab", min_size=1, max_size=3), st.integers(0, 9)), max_size=30
    )
)
def test_the_bound_holds_and_every_token_is_counted_once(steps):
    transcript = Transcript(12)
    for start, added, shift in steps:
        known = transcript.encode("a", start, Words())
        ids = [*known.ids, *(ord(character) + shift for character in added)]
        remembered = transcript.remember("a", start + added, ids, after=known.turn)
        listed = listed_turns(transcript)
        held = {turn for each in listed for turn in each.lineage()}
        assert transcript.tokens == sum(len(turn.own) for turn in held) <= 12
        assert all(turn.children == sum(each.parent is turn for each in held) for turn in held)
        if len(ids) <= 12:
            assert remembered in held
            assert transcript.encode("a", start + added, Words()).ids == ids


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from("abc"), st.text("xy", max_size=3), st.text("xy", min_size=1, max_size=4), st.integers(0, 9)
        ),
        max_size=40,
    )
)
def test_no_tenant_within_its_equal_share_loses_a_turn_to_another(steps):
    limit = 24
    transcript = Transcript(limit)
    for tenant, start, added, shift in steps:
        known = transcript.encode(tenant, start, Words())
        ids = [*known.ids, *(ord(character) + shift for character in added)]
        before = {name: (transcript.held_by(name), listed_turns(transcript, name)) for name in "abc"}
        turn = transcript.remember(tenant, start + added, ids, after=known.turn)
        sharing = sum(held > 0 for name, (held, _) in before.items() if name != tenant) + 1
        for name, (held, listed) in before.items():
            others = name != tenant and held * sharing <= limit
            assert not others or listed_turns(transcript, name) == listed
        assert turn is not None or (before[tenant][0] + len(ids)) * sharing > limit
        assert transcript.tokens == sum(map(transcript.held_by, "abc")) <= limit
        for name in "abc":
            needed = {turn for each in listed_turns(transcript, name) for turn in each.lineage()}
            assert transcript.held_by(name) == sum(len(turn.own) for turn in needed)
        assert set(transcript._turns) == {name for name in "abc" if transcript.held_by(name)}


def test_who_holds_most_forgets_its_own_oldest_turn(tokenizer):
    transcript = Transcript(12)
    transcript.remember("small", "1", [1, 2, 3])
    for name in ("2", "3", "4"):
        transcript.remember("large", name, [1, 2, 3])
    transcript.remember("new", "5", [1, 2, 3])
    known = [transcript.encode("large", name, tokenizer).turn is not None for name in "234"]
    assert known == [False, True, True]
    assert transcript.encode("small", "1", tokenizer).turn is not None
    assert [transcript.held_by(name) for name in ("small", "large", "new")] == [3, 6, 3]


def test_nothing_of_one_tenant_goes_before_what_another_remembers(tokenizer):
    transcript = Transcript(100)
    turn = transcript.remember("a", "1", [1, 2])
    transcript.remember("b", "12", [1, 2, 3], after=turn)
    assert transcript.encode("b", "12", tokenizer).ids == [1, 2, 3]
    assert (transcript.held_by("a"), transcript.held_by("b")) == (2, 3)


pieces = st.sampled_from(["a", "\n", "\n\n", " 12", "字", "<|im_start|>", "<|im_end|>", "<|im"])


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.lists(pieces, max_size=8).map("".join), max_size=8))
def test_the_result_always_decodes_to_the_text(tokenizer, texts):
    transcript = Transcript(100)
    for text in texts:
        # A tokenisation of its own: byte by byte in small pieces.
        ids = [token for part in text.partition("\n") for token in tokenizer.encode(part)]
        if tokenizer.decode(ids) == text:
            transcript.remember("a", text, ids)
        for other in texts:
            assert tokenizer.decode(transcript.encode("a", other + text, tokenizer).ids) == other + text


def test_a_long_text_that_is_tokenised_keeps_nobody_waiting():
    transcript = Transcript(1000)

    class Slow:
        specials: ClassVar[dict[str, int]] = {}

        def encode(self, text):
            other = threading.Thread(target=transcript.remember, args=("a", "text", [1]), daemon=True)
            other.start()
            other.join(10)
            return [0] if other.is_alive() else [1]

    assert transcript.encode("a", "something long", Slow()).ids == [1]
