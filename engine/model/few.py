"""A forward pass for few rows in one call of the C kernel, on the weights as the file stores them.

A step that decodes has a handful of rows: there, torch spends longer between its operators than in them. The kernel
needs every matrix in quantised blocks, and a processor with 8-bit dot products; elsewhere torch serves all steps.
`engine/native/decode.c` says what the fields mean.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.attention.base import AttentionStep
from engine.attention.kv import KVTensors
from engine.attention.native import NativeAttention, NativeAttentionStep
from engine.attention.plan import Segment, plan_attention
from engine.model.calibration import Calibration
from engine.model.config import ModelConfig
from engine.model.llama import LlamaDecoder
from engine.native.build import library, openmp
from engine.weights.blocks import Blocks, stack
from engine.weights.checkpoint import Checkpoint
from engine.weights.quant import BLOCK

PLAIN = ("llama", "mistral", "qwen2")
"""Architectures without any of the options that the kernel does not know."""
LANES = 16
PHASES = 8
WORK_BYTES, LAYER_BYTES = 64, 80
"""At least what the kernel's structs AttentionWork and Layer take."""

AGREEMENT = 0.2
"""How far logits may be from torch's, relative to their size: rounding gives a few hundredths, a fault about 1."""


class _Matrix(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("outputs", "inputs", "bits")),
        *((name, c_void_p) for name in ("codes", "scales", "minima", "bias")),
        ("zero", c_float),
    ]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Matrix) for name in ("qkv", "output", "gate_up", "down")),
        *((name, c_void_p) for name in ("attention_norm", "mlp_norm")),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, c_int64) for name in ("layers", "hidden", "inner")),
        *((name, c_float) for name in ("eps", "scale")),
        *((name, c_void_p) for name in ("layer", "norm")),
        ("head", _Matrix),
    ]


class _Step(ctypes.Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("plan", "x", "cos", "sin", "keys", "values", "sampled")),
        ("sampled_count", c_int64),
        *((name, c_void_p) for name in ("logits", "codes", "scales", "sums", "q", "mixed", "inner")),
        *((name, c_void_p) for name in ("counters", "attention", "attended")),
    ]


def has_kernel() -> bool:
    """Whether this machine can compile and run it."""
    kernel = library()
    return kernel is not None and openmp() is not None and bool(kernel.sapwood_can_decode())


class FewRows:
    """The kernel with one model's weights, packed for it."""

    def __init__(self, checkpoint: Checkpoint, decoder: LlamaDecoder) -> None:
        """ValueError where the kernel can't compute this model."""
        kernel = library()
        config = checkpoint.config
        if kernel is None or not has_kernel() or config.architecture not in PLAIN:
            raise ValueError("the kernel computes plain Llama layers only")
        self.config = checkpoint.config
        self._decode = kernel.sapwood_decode
        self._decoder = decoder
        self._kept: list[Tensor] = []
        packer = _Packer(checkpoint, self._kept)
        layers = (_Layer * self.config.layers)(*(_layer(packer, self.config, i) for i in range(self.config.layers)))
        self._layers = layers
        self._model = _Model(
            self.config.layers,
            self.config.hidden_size,
            self.config.intermediate_size,
            self.config.rms_eps,
            self.config.head_dim**-0.5,
            ctypes.addressof(layers),
            packer.vector("model.norm.weight"),
            packer.matrix(["model.embed_tokens" if self.config.tied_head else "lm_head"]),
        )

    def forward(self, ids: Tensor, positions: Tensor, rows: Tensor, attend: NativeAttentionStep) -> Tensor:
        """See `Decoder.forward`."""
        config, count = self.config, len(ids)
        x = self._decoder.embed(ids).float()
        rotation = self._decoder.rope.at(positions)
        widest = max(config.hidden_size, config.heads * config.head_dim, config.intermediate_size)
        codes = torch.empty(max(count, len(rows)) * widest, dtype=torch.int8)
        scales = torch.empty(2, max(count, len(rows)) * widest // BLOCK)
        mixed = torch.empty(2, count, config.heads, config.head_dim, dtype=attend.kv.dtype)
        inner = torch.empty(count, config.intermediate_size)
        logits = torch.empty(len(rows), config.vocab_size)
        pools = attend.kv.addresses
        counters = np.zeros((config.layers + 1) * PHASES, dtype=np.int64)
        work = np.empty(config.layers * (WORK_BYTES + LAYER_BYTES), dtype=np.uint8)
        step = _Step(
            plan=ctypes.addressof(attend.plan),
            x=x.data_ptr(),
            cos=rotation.cos.data_ptr(),
            sin=rotation.signed_sin.data_ptr(),
            keys=pools[0].ctypes.data,
            values=pools[1].ctypes.data,
            sampled=rows.data_ptr(),
            sampled_count=len(rows),
            logits=logits.data_ptr(),
            codes=codes.data_ptr(),
            scales=scales[0].data_ptr(),
            sums=scales[1].data_ptr(),
            q=mixed[0].data_ptr(),
            mixed=mixed[1].data_ptr(),
            inner=inner.data_ptr(),
            counters=counters.ctypes.data,
            attention=work.ctypes.data,
            attended=work.ctypes.data + config.layers * WORK_BYTES,
        )
        self._decode(ctypes.byref(self._model), ctypes.byref(step))
        return logits


@dataclass(frozen=True)
class ByRowsDecoder:
    """A `Decoder`: `few` for steps of up to `limit` rows, `many` for more."""

    few: FewRows
    many: LlamaDecoder
    limit: int

    @property
    def config(self) -> ModelConfig:
        return self.many.config

    def forward(self, ids: Tensor, positions: Tensor, rows: Tensor, attend: AttentionStep) -> Tensor:
        if len(ids) <= self.limit and isinstance(attend, NativeAttentionStep):
            return self.few.forward(ids, positions, rows, attend)
        return self.many.forward(ids, positions, rows, attend)

    def hidden(self, ids: Tensor, positions: Tensor, attend: AttentionStep) -> Tensor:
        """The kernel goes straight to the logits, so this is always torch's."""
        return self.many.hidden(ids, positions, attend)


def measured_limit(few: FewRows, many: LlamaDecoder, calibration: Calibration) -> int:
    """Up to how many rows the kernel is faster here; 0 where it computes something else than torch does."""
    config = many.config
    attention = NativeAttention(KVTensors(config, calibration.most, many.dtype))

    def run(decoder: FewRows | LlamaDecoder, ids: Tensor) -> Tensor:
        with torch.inference_mode():
            step = attention.step(plan_attention([Segment([], [(i, 1)], 1) for i in range(len(ids))]))
            return decoder.forward(ids, torch.zeros_like(ids), torch.arange(len(ids)), step)

    probe = torch.arange(3) * (config.vocab_size // 3)
    exact = run(many, probe)
    if float((run(few, probe) - exact).norm() / exact.norm()) > AGREEMENT:
        return 0
    name = f"decode {config.layers} x {config.hidden_size} x {config.intermediate_size} {many.dtype}"
    return calibration.rows(
        name,
        lambda ids: run(few, ids),
        lambda ids: run(many, ids),
        lambda rows: torch.arange(rows) % config.vocab_size,
    )


class _Packer:
    """Reads tensors in the kernel's order, and keeps them alive in `kept`."""

    def __init__(self, checkpoint: Checkpoint, kept: list[Tensor]) -> None:
        self._checkpoint = checkpoint
        self._kept = kept

    def vector(self, name: str) -> int:
        return self._keep(self._checkpoint.tensor(name, torch.float32))

    def matrix(self, names: Sequence[str], biased: bool = False) -> _Matrix:
        """The rows of all `names`, one after another. ValueError where they are not stored in blocks."""
        blocks = stack([self._checkpoint.blocks(f"{name}.weight") for name in names])
        if blocks is None or len(blocks.codes) % LANES:
            raise ValueError(f"{names[0]} is not stored in blocks")
        bias = [self._checkpoint.tensor(f"{name}.bias", torch.float32) for name in names] if biased else []
        return _Matrix(
            *blocks.codes.shape,
            blocks.bits,
            self._keep(pack_codes(blocks)),
            self._keep(_by_lanes(blocks.scale)),
            None if blocks.minimum is None else self._keep(_by_lanes(blocks.minimum)),
            self._keep(torch.cat(bias)) if bias else None,
            blocks.zero,
        )

    def _keep(self, tensor: Tensor) -> int:
        self._kept.append(tensor)
        return tensor.data_ptr()


def pack_codes(blocks: Blocks) -> Tensor:
    """uint8 [out / 16, in / 32, 4 or 8, 64]: 16 outputs side by side, four inputs each; with 4 bits the next four
    inputs are in the high halves."""
    outputs, inputs = blocks.codes.shape
    quads = blocks.codes.view(outputs // LANES, LANES, inputs // BLOCK, 8, 4).permute(0, 2, 3, 1, 4)
    if blocks.bits == 4:
        quads = quads[:, :, 0::2] | (quads[:, :, 1::2] << 4)
    return quads.contiguous()


def _by_lanes(constants: Tensor) -> Tensor:
    """[out, in / 32] -> [out / 16, in / 32, 16]."""
    outputs, blocks = constants.shape
    return constants.view(outputs // LANES, LANES, blocks).transpose(1, 2).contiguous()


def _layer(packer: _Packer, config: ModelConfig, index: int) -> _Layer:
    prefix = f"model.layers.{index}"

    def matrix(parts: Sequence[str], biased: bool) -> _Matrix:
        return packer.matrix([f"{prefix}.{part}" for part in parts], biased)

    return _Layer(
        matrix([f"self_attn.{part}_proj" for part in "qkv"], config.attention_bias),
        matrix(["self_attn.o_proj"], config.output_bias),
        matrix(["mlp.gate_proj", "mlp.up_proj"], config.mlp_bias),
        matrix(["mlp.down_proj"], config.mlp_bias),
        packer.vector(f"{prefix}.input_layernorm.weight"),
        packer.vector(f"{prefix}.post_attention_layernorm.weight"),
    )
