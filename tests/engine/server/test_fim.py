"""Fill in the middle by the tokens of each family."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from engine.prompt.tokenizer import load_tokenizer
from engine.prompt.vocabulary import byte_alphabet
from engine.server import fim
from engine.server.fim import LAYOUTS, Slot, fill_in_middle

EXPECTED = {
    "<|fim_prefix|>": "<|fim_prefix|>before<|fim_suffix|>after<|fim_middle|>",
    "<fim_prefix>": "<fim_prefix>before<fim_suffix>after<fim_middle>",
    "<|code_prefix|>": "<|code_prefix|>before<|code_suffix|>after<|code_middle|>",
    "<｜fim▁begin｜>": "<｜fim▁begin｜>before<｜fim▁hole｜>after<｜fim▁end｜>",
    "▁<PRE>": "▁<PRE>before▁<SUF>after▁<MID>",
    "[SUFFIX]": "[SUFFIX]after[PREFIX]before",
}


@pytest.fixture
def tokenizer_of(tmp_path):
    """Makes a tokenizer of bytes, with special tokens behind them."""

    def make(*specials):
        raw = tokenizers.Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(byte_alphabet())}, merges=[]))
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        raw.add_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
        raw.save(str(tmp_path / "tokenizer.json"))
        return load_tokenizer({}, tmp_path)

    return make


def markers(layout):
    return [part for part in layout if not isinstance(part, Slot)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: markers(layout)[0])
def test_each_familys_layout(tokenizer_of, layout):
    words = tokenizer_of(*markers(layout))
    middle = fill_in_middle(words)
    ids = middle.ids(words.encode("before"), words.encode("after"))
    assert words.decode(ids) == EXPECTED[markers(layout)[0]]
    assert middle.stop_ids == {words.raw.token_to_id(name) for name in markers(layout)}


def test_what_begins_something_else_ends_a_middle(tokenizer_of):
    names = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|file_sep|>", "<|im_end|>")
    words = tokenizer_of(*names)
    assert fill_in_middle(words).stop_ids == {words.raw.token_to_id(name) for name in names[:5]}


@pytest.mark.parametrize("names", [(), ("<|fim_prefix|>", "<|fim_suffix|>"), ("<fim_prefix>", "<|fim_suffix|>")])
def test_a_model_that_lacks_a_marker_cannot(tokenizer_of, names):
    assert fill_in_middle(tokenizer_of(*names)) is None


def test_an_empty_suffix_keeps_the_layout(tokenizer_of):
    words = tokenizer_of("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    assert words.decode(fill_in_middle(words).ids(words.encode("x"), [])) == (
        "<|fim_prefix|>x<|fim_suffix|><|fim_middle|>"
    )


@pytest.mark.parametrize("prompt", ["def f(x):\n", [5, 6, 7]])
def test_a_completion_with_a_suffix(http, service, monkeypatch, prompt):
    """The tests' model has no such tokens, so three of its others play them."""
    monkeypatch.setattr(fim, "LAYOUTS", (("<repo_name>", Slot.PREFIX, "<file_sep>", Slot.SUFFIX, "<filename>"),))
    tokenizer = service.preparer.tokenizer
    before = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    body = {"prompt": prompt, "suffix": "\n    return x", "max_tokens": 4, "temperature": 0, "echo": True}
    reply = http.post("/v1/completions", json=body).json()
    assert reply["usage"]["prompt_tokens"] == len(before) + len(tokenizer.encode("\n    return x")) + 3
    assert reply["choices"][0]["text"].startswith(tokenizer.decode(before))
    sep = tokenizer.specials["<file_sep>"]
    ended = http.post("/v1/completions", json={**body, "logit_bias": {str(sep): 100}}).json()
    assert (ended["choices"][0]["finish_reason"], ended["usage"]["completion_tokens"]) == ("stop", 1)
