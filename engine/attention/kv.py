"""The KV tensors that the slot numbers of `engine.cache` point into."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.model.config import ModelConfig

Addresses = NDArray[np.uintp]


class KVTensors:
    """Keys and values of every layer, laid out [kv_heads, slots, head_dim] so that a run of slots is one
    strided view for the attention kernels. Memory is touched only when a slot is first written."""

    def __init__(self, config: ModelConfig, slots: int, dtype: torch.dtype, layers: int | None = None) -> None:
        self.config = config
        self.slots = slots
        self.dtype = dtype
        shape = (config.kv_heads, slots, config.head_dim)
        self.keys = [torch.empty(shape, dtype=dtype) for _ in range(layers or config.layers)]
        self.values = [torch.empty(shape, dtype=dtype) for _ in range(layers or config.layers)]

    @cached_property
    def addresses(self) -> tuple[Addresses, Addresses]:
        """Where the keys and the values of each layer begin, for kernels."""
        keys, values = (np.array([x.data_ptr() for x in pool], np.uintp) for pool in (self.keys, self.values))
        return keys, values

    def write(self, layer: int, slots: Tensor, k: Tensor, v: Tensor) -> None:
        """slots: int64 [tokens]; k, v: [tokens, kv_heads, head_dim]."""
        self.keys[layer].index_copy_(1, slots, k.transpose(0, 1))
        self.values[layer].index_copy_(1, slots, v.transpose(0, 1))

    @staticmethod
    def bytes_per_slot(config: ModelConfig, dtype: torch.dtype) -> int:
        return 2 * config.layers * config.kv_heads * config.head_dim * dtype.itemsize
