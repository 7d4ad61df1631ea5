"""Rotary position embedding in the half-rotation layout: element i of a head turns with i + dim / 2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engine.errors import StartError
from engine.model.config import ModelConfig


class Rotation(NamedTuple):
    """The turn of each token, made once a step and used by every layer; both float32 [tokens, 1, head_dim]."""

    cos: Tensor
    signed_sin: Tensor


class Rope:
    """The rotary frequencies of one model, already scaled for long contexts."""

    def __init__(self, config: ModelConfig) -> None:
        self._frequencies = scaled_frequencies(config)  # float32 [head_dim / 2]

    def at(self, positions: Tensor) -> Rotation:
        """The rotation for positions [tokens]."""
        angles = positions.float()[:, None, None] * self._frequencies
        cos, sin = angles.cos(), angles.sin()
        return Rotation(torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1))


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """x: [tokens, any heads, head_dim], turned."""
    swapped = x.roll(x.shape[-1] // 2, -1)
    return torch.addcmul(x * rotation.cos, swapped, rotation.signed_sin)


def scaled_frequencies(config: ModelConfig) -> Tensor:
    """float32 [head_dim / 2]; StartError for a scaling that is not known."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    kind = scaling.get("rope_type")
    if kind not in _SCALINGS:
        raise StartError(f"rope scaling {kind!r} is not supported; supported are {', '.join(_SCALINGS)}")
    try:
        return _SCALINGS[kind](frequencies, scaling)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise StartError(f"the rope scaling {dict(scaling)} is not usable: {error!r}") from None


def _linear(frequencies: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    return frequencies / float(scaling["factor"])


def _factors(frequencies: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    factors = torch.tensor(scaling["factors"], dtype=torch.float32)
    if factors.shape != frequencies.shape:
        raise ValueError(f"{len(factors)} factors for {len(frequencies)} frequencies")
    return frequencies / factors


def _llama3(frequencies: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    """Llama 3.1: long waves are stretched by `factor`, short ones stay, those between are blended."""
    turns = frequencies * (float(scaling["original_max_position_embeddings"]) / (2 * math.pi))
    low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies * (kept + (1 - kept) / float(scaling["factor"]))


_SCALINGS = {"linear": _linear, "llama3": _llama3, "factors": _factors}
