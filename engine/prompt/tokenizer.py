"""Text to token ids and back, over the `tokenizers` library.

A tokenizer is read from GGUF metadata (`tokenizer.ggml.*`) or from `tokenizer.json` in the model's folder, and it is
the same tokenizer either way. It never adds a token by itself: a chat template writes the special tokens it wants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models

from engine.errors import StartError
from engine.prompt import sentencepiece
from engine.prompt.pretokenize import split_named
from engine.prompt.text import well_formed
from engine.prompt.vocabulary import scheme_of

_GGUF_EOS_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


class GgufTokenType(IntEnum):
    """`tokenizer.ggml.token_type`, as the GGUF specification numbers it."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Tokenizer:
    """A `tokenizers.Tokenizer` with the ids that a chat needs."""

    def __init__(
        self, raw: tokenizers.Tokenizer, *, eos_ids: frozenset[int], bos_id: int | None, eos_id: int | None
    ) -> None:
        self.raw = raw
        self.eos_ids = eos_ids
        self.bos_id = bos_id
        self.eos_id = eos_id
        self.vocab_size: int = raw.get_vocab_size(with_added_tokens=True)
        added = raw.get_added_tokens_decoder()
        self._added = {token_id: token.content for token_id, token in added.items()}
        self._scheme = scheme_of(raw.decoder.__getstate__().decode("utf-8"))
        self._bytes: dict[int, bytes] = {}
        self.specials: Mapping[str, int] = {
            token.content: token_id for token_id, token in added.items() if token.special
        }

    def encode(self, text: str) -> list[int]:
        """The ids of `text`. Special tokens written in it are recognised; none is added.

        As a batch of one: only for batches does the library let other Python threads run meanwhile.
        """
        ids: list[int] = self.raw.encode_batch_fast([well_formed(text)], add_special_tokens=False)[0].ids
        return ids

    def at_least(self, characters: int) -> int:
        """Fewest tokens that a text of so many characters can have: a bound without the work of encoding it."""
        return -(-characters // self._longest_token)

    def decode(self, ids: Sequence[int], skip_specials: bool = False) -> str:
        """The text of `ids`; bytes that are no UTF-8 become U+FFFD."""
        text: str = self.raw.decode(list(ids), skip_special_tokens=skip_specials)
        return text

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that one token adds to the text; empty for an id that has no token."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._read_bytes(token_id)
        return known

    def is_special(self, token_id: int) -> bool:
        """Whether the token steers the model rather than being text."""
        return token_id in self.special_ids

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(self.specials.values())

    @cached_property
    def _longest_token(self) -> int:
        return max(1, *(len(self.token_bytes(token_id)) for token_id in range(self.vocab_size)))

    @cached_property
    def eos_names(self) -> tuple[str, ...]:
        """The texts of all tokens that end an answer."""
        return tuple(filter(None, map(self.text_of, sorted(self.eos_ids))))

    @property
    def bos(self) -> str:
        """The text of the beginning-of-sequence token, or an empty string."""
        return self.text_of(self.bos_id)

    @property
    def eos(self) -> str:
        """The text of the end-of-sequence token that templates write (of several, the main one), or an empty string."""
        return self.text_of(self.eos_id)

    def text_of(self, token_id: int | None) -> str:
        """A token as the vocabulary writes it."""
        return "" if token_id is None else self.raw.id_to_token(token_id) or ""

    def _read_bytes(self, token_id: int) -> bytes:
        if token_id in self._added:
            return self._added[token_id].encode("utf-8")
        token = self.raw.id_to_token(token_id)
        return b"" if token is None else self._scheme(token)


def load_tokenizer(metadata: Mapping[str, Any], folder: Path | None) -> Tokenizer:
    """The model's tokenizer, from GGUF metadata where it holds one, else from `folder`/tokenizer.json.

    Raises StartError for a vocabulary that can't be read exactly.
    """
    if "tokenizer.ggml.model" in metadata:
        return _from_gguf(metadata)
    if folder is not None and (folder / "tokenizer.json").is_file():
        return _from_folder(folder)
    where = f"{folder} has no tokenizer.json" if folder else "the GGUF file has no tokenizer.ggml.model"
    raise StartError(f"the model has no tokenizer: {where}")


def _from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    kind = metadata["tokenizer.ggml.model"]
    if kind not in _GGUF_KINDS:
        raise StartError(
            f"the GGUF file has a tokenizer of type {kind!r}, and only {' and '.join(_GGUF_KINDS)} are read from GGUF; "
            "use the model's folder with its tokenizer.json instead"
        )
    raw = _GGUF_KINDS[kind](metadata)
    raw.add_tokens(_added_tokens(metadata))
    found = (metadata.get(f"tokenizer.ggml.{key}") for key in _GGUF_EOS_KEYS)
    eos = [int(token_id) for token_id in found if token_id is not None]
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    return Tokenizer(
        raw,
        eos_ids=frozenset(eos),
        bos_id=None if bos is None else int(bos),
        eos_id=next(iter(eos), None),
    )


def _byte_pair(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer:
    split = split_named(str(metadata.get("tokenizer.ggml.pre", "default")))
    try:
        vocab = {token: index for index, token in enumerate(metadata["tokenizer.ggml.tokens"])}
        merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
        raw = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=split.ignore_merges))
    except KeyError as error:
        raise StartError(f"the GGUF file's tokenizer is incomplete: {error.args[0]} is missing") from None
    except Exception as error:  # the library has no exception types of its own
        raise StartError(f"the GGUF file's tokenizer is damaged: {error}") from None
    raw.pre_tokenizer = split.pre_tokenizer()
    if split.normalizer is not None:
        raw.normalizer = split.normalizer()
    raw.decoder = decoders.ByteLevel()
    return raw


_GGUF_KINDS = {"gpt2": _byte_pair, "llama": sentencepiece.byte_pair}


def _added_tokens(metadata: Mapping[str, Any]) -> list[AddedToken]:
    """Tokens that are cut out of the text whole. Control tokens steer; user-defined ones are ordinary output."""
    types = metadata.get("tokenizer.ggml.token_type", ())
    whole = (GgufTokenType.CONTROL, GgufTokenType.USER_DEFINED)
    return [
        AddedToken(token, special=kind == GgufTokenType.CONTROL, normalized=False)
        for token, kind in zip(metadata["tokenizer.ggml.tokens"], types, strict=False)
        if kind in whole
    ]


def _from_folder(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    try:
        raw = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no exception types of its own
        raise StartError(f"{path} can't be read as a tokenizer: {error}") from None
    raw.no_truncation()
    raw.no_padding()
    settings = _read_json(folder / "tokenizer_config.json")
    configs = [_read_json(folder / name) for name in ("config.json", "generation_config.json")]
    bos, eos = (_named_ids(key, raw, settings, configs) for key in ("bos_token", "eos_token"))
    return Tokenizer(raw, eos_ids=frozenset(eos), bos_id=next(iter(bos), None), eos_id=next(iter(eos), None))


def _named_ids(
    key: str, raw: tokenizers.Tokenizer, settings: Mapping[str, Any], configs: Sequence[Mapping[str, Any]]
) -> list[int]:
    """The ids that any file gives for `bos_token` or `eos_token`; first what `tokenizer_config.json` names."""
    named = [raw.token_to_id(name) for name in _token_names(settings.get(key))]
    ids = [token_id for config in configs for token_id in _as_ids(config.get(f"{key}_id"))]
    return [*(token_id for token_id in named if token_id is not None), *ids]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise StartError(f"{path} is not JSON: {error}") from None
    return value if isinstance(value, dict) else {}


def _token_names(value: Any) -> list[str]:
    """The names in `tokenizer_config.json`, where a token is a string or an object with `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return [value] if isinstance(value, str) else []


def _as_ids(value: Any) -> list[int]:
    """`eos_token_id` may be one id or a list of ids."""
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)]
