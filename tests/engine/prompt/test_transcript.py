"""Token-exact history: what was generated comes back as the same ids, and nothing else does."""

from __future__ import annotations

import threading
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompt.transcript import Transcript

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
    assert result == prompt + ids + tokenizer.encode(NEXT)
    assert counting.encoded == [NEXT]  # the old text is not tokenised again
    assert (transcript.spliced, transcript.unknown) == (1, 0)


def test_an_edited_turn_gets_the_ordinary_encoding(tokenizer):
    turn, ids = odd_turn(tokenizer)
    transcript = Transcript(1000)
    transcript.remember("a", PROMPT + turn, tokenizer.encode(PROMPT) + ids)
    for text in (PROMPT + turn + "!" + NEXT, PROMPT.replace("hi", "ho") + turn + NEXT):
        assert transcript.encode("a", text, tokenizer) == tokenizer.encode(text)
    assert (transcript.spliced, transcript.unknown) == (0, 2)


def test_the_longest_remembered_beginning_counts(tokenizer):
    turn, ids = odd_turn(tokenizer)
    transcript = Transcript(1000)
    first = tokenizer.encode(PROMPT) + ids
    transcript.remember("a", PROMPT + turn, first)
    second_prompt = transcript.encode("a", PROMPT + turn + NEXT, tokenizer)
    transcript.remember("a", PROMPT + turn + NEXT + turn, second_prompt + ids)
    third = transcript.encode("a", PROMPT + turn + NEXT + turn + NEXT, tokenizer)
    assert third == second_prompt + ids + tokenizer.encode(NEXT)


def test_tenants_do_not_share(tokenizer):
    turn, ids = odd_turn(tokenizer)
    transcript = Transcript(1000)
    transcript.remember("a", PROMPT + turn, tokenizer.encode(PROMPT) + ids)
    text = PROMPT + turn + NEXT
    assert transcript.encode("b", text, tokenizer) == tokenizer.encode(text)


def test_the_oldest_turn_is_forgotten_first(tokenizer):
    transcript = Transcript(10)
    transcript.remember("a", "one", [1, 2, 3, 4])
    transcript.remember("a", "two", [5, 6, 7, 8])
    assert transcript.encode("a", "one", tokenizer) == [1, 2, 3, 4]  # used: now the newest
    transcript.remember("a", "three", [9, 9, 9, 9])
    assert transcript.tokens == 8
    assert transcript.encode("a", "two", tokenizer) == tokenizer.encode("two")
    assert transcript.encode("a", "one", tokenizer) == [1, 2, 3, 4]
    transcript.remember("a", "too long", list(range(11)))
    assert (len(transcript), transcript.tokens) == (2, 8)
    transcript.remember("a", "one", [4, 3])
    assert (len(transcript), transcript.tokens) == (2, 6)


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
            assert tokenizer.decode(transcript.encode("a", other + text, tokenizer)) == other + text


def test_a_long_text_that_is_tokenised_keeps_nobody_waiting():
    transcript = Transcript(1000)

    class Slow:
        specials: ClassVar[dict[str, int]] = {}

        def encode(self, text):
            other = threading.Thread(target=transcript.remember, args=("a", "text", [1]), daemon=True)
            other.start()
            other.join(10)
            return [0] if other.is_alive() else [1]

    assert transcript.encode("a", "something long", Slow()) == [1]
