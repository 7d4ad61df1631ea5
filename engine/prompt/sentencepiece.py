"""The tokenizer of GGUF files whose `tokenizer.ggml.model` is `llama`: SentencePiece's byte-pair encoding.

Such a file has scores in the place of merges: of all neighbours that together are a token, those with the highest score
are joined first. As merges that is: each way to cut a token into two tokens, ordered by the token's score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from engine.errors import StartError

SPACE = "\u2581"


def byte_pair(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """StartError for an incomplete vocabulary."""
    try:
        tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
        unknown = tokens[metadata.get("tokenizer.ggml.unknown_token_id", 0)]
    except (KeyError, IndexError, TypeError) as error:
        raise StartError(f"the GGUF file's tokenizer is incomplete: {error}") from None
    vocabulary = {token: index for index, token in enumerate(tokens)}
    try:
        raw = tokenizers.Tokenizer(
            models.BPE(
                vocab=vocabulary,
                merges=merges(vocabulary, scores),
                unk_token=unknown,
                fuse_unk=True,
                byte_fallback=True,
            )
        )
    except Exception as error:  # the library has no exception types of its own
        raise StartError(f"the GGUF file's tokenizer is damaged: {error}") from None
    spaces: list[normalizers.Normalizer] = [normalizers.Replace(" ", SPACE)]
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        spaces.insert(0, normalizers.Prepend(SPACE))
    raw.normalizer = normalizers.Sequence(spaces)
    raw.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    raw.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    return raw


def merges(vocabulary: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Every cut of a token into two tokens, the best token first; of one token's cuts, those of better parts."""
    found = []
    for token, index in vocabulary.items():
        for cut in range(1, len(token)):
            left, right = vocabulary.get(token[:cut]), vocabulary.get(token[cut:])
            if left is not None and right is not None:
                found.append((-scores[index], left, right, token[:cut], token[cut:]))
    return [(left, right) for *_, left, right in sorted(found)]
