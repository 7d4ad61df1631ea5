"""Scores as merges: the ids are those of SentencePiece's own rule, written down as it is described."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.prompt.tokenizer import load_tokenizer
from tests.examples import examples

PIECES = ["a", "b", "c", "\u2581", "ab", "bc", "\u2581a", "abc", "\u2581ab", "ca", "cab", "bb", "\u2581\u2581"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
TOKENS = ["<unk>", "<s>", *BYTES, *PIECES]
METADATA = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.scores": [0.0] * (2 + 256) + [-float(rank) for rank in range(len(PIECES))],
    "tokenizer.ggml.token_type": [2, 3, *[6] * 256, *[1] * len(PIECES)],
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.add_space_prefix": False,
}
SCORES = dict(zip(TOKENS, METADATA["tokenizer.ggml.scores"], strict=True))


def joined(text):
    """Of all neighbours that are a token together, join those with the best score, the leftmost first."""
    parts = list(text.replace(" ", "\u2581"))
    while True:
        pairs = [(SCORES.get(a + b), -at) for at, (a, b) in enumerate(pairwise(parts))]
        known = [pair for pair in pairs if pair[0] is not None]
        if not known:
            break
        at = -max(known)[1]
        parts[at : at + 2] = ["".join(parts[at : at + 2])]
    spelled = [[part] if part in SCORES else [f"<0x{byte:02X}>" for byte in part.encode()] for part in parts]
    return [TOKENS.index(token) for tokens in spelled for token in tokens]


@settings(max_examples=examples(200), deadline=None)
@given(st.text(alphabet="abc dü", max_size=12))
def test_ids_are_those_of_the_rule(text):
    tokenizer = load_tokenizer(METADATA, None)
    assert tokenizer.encode(text) == joined(text)
    assert b"".join(tokenizer._read_bytes(token) for token in tokenizer.encode(text)) == text.encode()


def test_a_space_is_put_before_the_text_where_the_file_says_so():
    spaced = load_tokenizer({**METADATA, "tokenizer.ggml.add_space_prefix": True}, None)
    assert [spaced.raw.id_to_token(token) for token in spaced.encode("ab a")] == ["\u2581ab", "\u2581a"]
