"""The tokenizer read from GGUF against independent ones, on code and on text that is hard to cut."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from engine.errors import StartError
from engine.output.tools.fence import FenceFormat
from engine.prompt.messages import read_messages
from engine.prompt.template import ChatTemplate
from engine.prompt.tokenizer import load_tokenizer

SOURCES = [inspect.getsource(module) for module in (argparse, ast, dataclasses, json, json.decoder)]
# SmolLM2's vocabulary lacks some bytes: it can't write six control characters, nor the planes 4 to 11.
UNWRITABLE = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2}
WRITABLE = st.text(st.characters(codec="utf-8").filter(lambda c: not UNWRITABLE & set(c.encode())))
HARD = [
    "字字😀 漢字かな交じり文 한국어",
    "👩‍👩‍👧‍👦 🇩🇪 é é ﬁ ß İ ſ",
    "0 12 345 6789 1_000_000 3.14159e-10 0xDEADBEEF v1.2.3 ½ ² ٣٤ Ⅷ",
    "  \t\t \n\n\n   \r\n \u00a0 \u3000 x\n    y\n\ty   ",
    "I'm you're we've they'll he'd it's IT'S",
    "\x00\x01\x7f\u200b\ufeff",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start<|im_end|>|> <repo_name><reponame>",
    "",
]


@pytest.fixture(scope="module")
def independent(smollm2_checkpoint):
    """The vocabulary written as a tokenizer.json by hand, with the rule of SmolLM's own file, in `transformers`."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    metadata = smollm2_checkpoint.metadata
    tokens = list(metadata["tokenizer.ggml.tokens"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [
        {"id": index, "content": token, **flags}
        for index, (token, kind) in enumerate(zip(tokens, metadata["tokenizer.ggml.token_type"], strict=True))
        if kind == 3
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    merges = [merge.split(" ") for merge in metadata["tokenizer.ggml.merges"]]
    document = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": merges,
        },
    }
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(document)))


@pytest.mark.parametrize("text", SOURCES + HARD, ids=lambda text: repr(text[:20]))
def test_equals_an_independent_tokenizer(tokenizer, independent, text):
    assert tokenizer.encode(text) == independent.encode(text, add_special_tokens=False)


@pytest.fixture(scope="module")
def converted(smollm2_path):
    """The conversion from GGUF in `transformers`. It leaves out that the model takes each digit alone."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2_path.parent, gguf_file=smollm2_path.name, local_files_only=True)


@pytest.mark.parametrize("text", SOURCES, ids=lambda text: repr(text[:20]))
def test_equals_the_conversion_of_transformers_without_digits(tokenizer, converted, text):
    text = re.sub(r"\d", "", text)
    assert tokenizer.encode(text) == converted.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("text", SOURCES + HARD, ids=lambda text: repr(text[:20]))
def test_equals_the_conversion_of_transformers_with_its_digits_put_right(tokenizer, converted, text):
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import Digits, Sequence

    other = Tokenizer.from_str(converted.backend_tokenizer.to_str())
    other.pre_tokenizer = Sequence([Digits(individual_digits=True), other.pre_tokenizer])
    assert tokenizer.encode(text) == other.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("text", SOURCES + HARD, ids=lambda text: repr(text[:20]))
def test_round_trip_of_the_corpus(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(max_examples=300, deadline=None)
@given(text=WRITABLE)
def test_round_trip_of_any_text(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8") == text


def test_special_tokens(tokenizer):
    assert tokenizer.encode("<|im_start|>") == [1]
    assert tokenizer.specials["<|im_end|>"] == 2
    assert tokenizer.eos_ids == {2}
    assert (tokenizer.bos, tokenizer.eos) == ("<|im_start|>", "<|im_end|>")
    assert tokenizer.decode([1, *tokenizer.encode("hi"), 2], skip_specials=True) == "hi"
    assert tokenizer.is_special(2)
    assert not tokenizer.is_special(1000)


def test_every_token_has_bytes_and_no_id_beyond_has(tokenizer):
    assert tokenizer.vocab_size == 49152
    assert all(tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size))
    assert tokenizer.token_bytes(tokenizer.vocab_size) == b""


def test_a_lone_surrogate_is_replaced(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"


def test_is_built_in_half_a_second(smollm2_checkpoint):
    metadata = dict(smollm2_checkpoint.metadata)
    start = time.process_time()
    load_tokenizer(metadata, None)
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"tokenizer.ggml.model": "t5"}, "'t5'.*gpt2 and llama"),
        ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.tokens"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "no-such-split"}, "no-such-split"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2"}, "tokenizer.ggml.tokens"),
        ({}, "tokenizer"),
    ],
)
def test_what_cannot_be_read_is_named(metadata, named):
    with pytest.raises(StartError, match=named):
        load_tokenizer(metadata, None)


def test_user_defined_tokens_are_cut_whole_but_stay_in_the_output():
    alphabet = ["a", "b", "<end>", "<think>"]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": alphabet,
        "tokenizer.ggml.token_type": [1, 1, 3, 4],
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": 2,
    }
    small = load_tokenizer(metadata, None)
    assert small.encode("a<think>b<end>") == [0, 3, 1, 2]
    assert small.decode([0, 3, 1, 2], skip_specials=True) == "a<think>b"
    assert dict(small.specials) == {"<end>": 2}


def test_a_folder_gives_the_same_tokenizer(tokenizer, tmp_path):
    tokenizer.raw.save(str(tmp_path / "tokenizer.json"))
    settings_file = {"eos_token": {"content": "<|im_end|>"}, "bos_token": "<|im_start|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings_file))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0]}))
    from_folder = load_tokenizer({}, tmp_path)
    assert from_folder.eos_ids == {0, 2}
    assert from_folder.bos_id == 1
    text = SOURCES[0]
    assert from_folder.encode(text) == tokenizer.encode(text)
    assert from_folder.token_bytes(500) == tokenizer.token_bytes(500)


def test_all_files_of_a_folder_name_ends_and_the_main_one_is_the_tokenizers_own(tokenizer, tmp_path):
    tokenizer.raw.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 0, "bos_token_id": 1}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 3]}))
    assert load_tokenizer({}, tmp_path).eos_ids == {0, 3}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    found = load_tokenizer({}, tmp_path)
    assert (found.eos_ids, found.eos) == ({0, 2, 3}, "<|im_end|>")  # what a template's eos_token writes
    assert set(found.eos_names) == {"<|endoftext|>", "<|im_end|>", "<repo_name>"}


def test_all_ends_of_a_gguf_file_count(smollm2_checkpoint):
    metadata = {**smollm2_checkpoint.metadata, "tokenizer.ggml.eot_token_id": 0}
    found = load_tokenizer(metadata, None)
    assert (found.eos_ids, found.eos) == ({0, 2}, "<|im_end|>")


def test_a_prompt_begins_once_although_tokenizer_and_template_both_begin_it(tokenizer, tmp_path):
    begins = TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)])
    document = json.loads(tokenizer.raw.to_str())
    document["post_processor"] = json.loads(begins.__getstate__())
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|endoftext|>", "add_bos_token": True}))
    found = load_tokenizer({}, tmp_path)
    assert found.raw.encode("hi").ids[0] == 0  # it would
    template = ChatTemplate("{{ bos_token }}{{ messages[0].content }}", found.bos, found.eos, FenceFormat())
    assert found.encode(template.render(read_messages([{"role": "user", "content": "hi"}]))) == [0, *found.encode("hi")]


def test_a_damaged_tokenizer_file_is_named(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(StartError, match=r"tokenizer\.json"):
        load_tokenizer({}, tmp_path)
