"""Tokens to text, with the special tokens that a parser needs to see."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models

from engine.output.text import TextOutput
from engine.prompt.tokenizer import load_tokenizer
from engine.prompt.vocabulary import byte_alphabet

CALLS, END = 256, 257


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Single bytes and two special tokens."""
    folder = tmp_path_factory.mktemp("tokenizer")
    raw = tokenizers.Tokenizer(models.BPE(vocab=dict(byte_alphabet()), merges=[]))
    raw.decoder = decoders.ByteLevel()
    raw.add_tokens([AddedToken("[TOOL_CALLS]", special=True), AddedToken("</s>", special=True)])
    raw.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    return load_tokenizer({}, folder)


def test_only_the_marks_of_a_format_are_shown(tokenizer):
    ids = [*b"a", CALLS, *b"b", END]
    for shown, expected in (((), "ab"), (("[TOOL_CALLS]", "[ARGS]"), "a[TOOL_CALLS]b")):
        output = TextOutput(tokenizer, [], shown)
        assert "".join(map(output.push, ids)) + output.finish() == output.text == expected


def test_a_mark_ends_a_character_that_never_became_whole(tokenizer):
    output = TextOutput(tokenizer, ["[TOOL_CALLS]b"], ["[TOOL_CALLS]"])
    assert [output.push(token) for token in (0xE5, CALLS, *b"a")] == ["", "\ufffd", "[TOOL_CALLS]a"]
    assert [output.push(token) for token in (CALLS, *b"b")] == ["", ""]
    assert output.stopped
