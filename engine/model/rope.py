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
        self._length = attention_factor(config.rope_scaling)

    def at(self, positions: Tensor) -> Rotation:
        """The rotation for positions [tokens]."""
        angles = positions.float()[:, None, None] * self._frequencies
        cos, sin = angles.cos() * self._length, angles.sin() * self._length
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
    if kind not in (*_SCALINGS, "yarn"):
        raise StartError(f"rope scaling {kind!r} is not supported; supported are {', '.join(_SCALINGS)}, yarn")
    try:
        return _yarn(frequencies, scaling, config) if kind == "yarn" else _SCALINGS[kind](frequencies, scaling)
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


def _yarn(frequencies: Tensor, scaling: Mapping[str, Any], config: ModelConfig) -> Tensor:
    """Peng et al. 2023: waves that turn less than `beta_slow` times within the original context are stretched by
    `factor`, those that turn more than `beta_fast` times stay, a ramp over the dimensions blends the others.
    """
    original = float(scaling.get("original_max_position_embeddings") or config.max_context)

    def dimension(turns: float) -> float:
        """At which (fractional) index a wave turns so often in the original context."""
        return config.head_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(config.rope_theta))

    low, high = dimension(float(scaling.get("beta_fast") or 32)), dimension(float(scaling.get("beta_slow") or 1))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.head_dim - 1)
    ramp = (torch.arange(len(frequencies), dtype=torch.float32) - low) / ((high - low) or 0.001)
    stretched = ramp.clamp(0, 1)
    return frequencies / float(scaling["factor"]) * stretched + frequencies * (1 - stretched)


def attention_factor(scaling: Mapping[str, Any] | None) -> float:
    """What the turned queries and keys are multiplied by."""
    if scaling is None:
        return 1.0
    if (given := scaling.get("attention_factor")) is not None:
        return float(given)
    if scaling.get("rope_type") != "yarn":
        return 1.0
    factor = float(scaling["factor"])
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return _mscale(factor, float(scaling["mscale"])) / _mscale(factor, float(scaling["mscale_all_dim"]))
    return _mscale(factor, 1.0)


def _mscale(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


_SCALINGS = {"linear": _linear, "llama3": _llama3, "factors": _factors}
