"""Streaming text: exact bytes, nothing taken back, at most one character held."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompt.detokenizer import Detokenizer
from engine.prompt.vocabulary import byte_alphabet, sentencepiece


def byte_tokens(tokenizer, data: bytes) -> list[int]:
    """One token for each byte, as a model may write them."""
    character = {byte: char for char, byte in byte_alphabet().items()}
    return [tokenizer.raw.token_to_id(character[byte]) for byte in data]


def test_characters_in_single_bytes(tokenizer):
    ids = byte_tokens(tokenizer, bytes.fromhex("e5ad97 e5ad97 f09f9880"))
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(token_id) for token_id in ids]
    assert pieces == ["", "", "字", "", "", "字", "", "", "", "😀"]
    assert detokenizer.flush() == ""


def test_an_unfinished_character_is_flushed_once(tokenizer):
    detokenizer = Detokenizer(tokenizer)
    assert [detokenizer.push(i) for i in byte_tokens(tokenizer, b"a\xf0\x9f\x98")] == ["a", "", "", ""]
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_specials_are_hidden_unless_asked_for(tokenizer):
    ids = [1, *tokenizer.encode("hi"), 2]
    hidden, shown = Detokenizer(tokenizer), Detokenizer(tokenizer, specials=True)
    assert "".join(map(hidden.push, ids)) == "hi"
    assert "".join(map(shown.push, ids)) == "<|im_start|>hi<|im_end|>"


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(17, 49151), max_size=40))
def test_any_tokens_give_the_bytes_decoded_at_once(tokenizer, ids):
    detokenizer = Detokenizer(tokenizer)
    text = "".join(map(detokenizer.push, ids)) + detokenizer.flush()
    assert text == b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8", "replace")


def test_sentencepiece_tokens():
    assert sentencepiece("▁hi") == b" hi"
    assert sentencepiece("<0xE5>") == b"\xe5"
