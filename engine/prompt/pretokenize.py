"""How each GGUF pre-tokeniser name (`tokenizer.ggml.pre`) splits text before byte-pair merging.

A wrong split gives ids that decode to the right text but that the model has never seen, which no error shows:
an unknown name is therefore refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Regex, normalizers, pre_tokenizers

from engine.errors import StartError

_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = _QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


@dataclass(frozen=True)
class Split:
    """One way to cut text. `ignore_merges`: a piece that is a token is taken whole, without merging."""

    pre_tokenizer: Callable[[], pre_tokenizers.PreTokenizer]
    normalizer: Callable[[], normalizers.Normalizer] | None = None
    ignore_merges: bool = False


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _single_digits() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _by(pattern: str) -> Callable[[], pre_tokenizers.PreTokenizer]:
    def build() -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )

    return build


_SPLITS: dict[str, Split] = {
    **dict.fromkeys(("gpt-2", "gpt2", "phi-2"), Split(_gpt2)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "codeshell", "command-r"), Split(_single_digits)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), Split(_by(_QWEN2), normalizers.NFC)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), Split(_by(_LLAMA3), ignore_merges=True)),
}


def split_named(name: str) -> Split:
    """The split of a GGUF file's `tokenizer.ggml.pre`. Raises StartError for a name that isn't known."""
    if name not in _SPLITS:
        known = ", ".join(sorted(_SPLITS))
        raise StartError(
            f"the GGUF file asks for the pre-tokeniser {name!r}, which is not supported (known: {known}); "
            "use the model's folder with its tokenizer.json instead"
        )
    return _SPLITS[name]
