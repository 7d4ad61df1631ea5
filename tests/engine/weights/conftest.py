"""Writes tiny Llama models as GGUF files, with the reference writer and the reference quantiser."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

HEADS, KV_HEADS, HEAD_DIM, HIDDEN, INNER, LAYERS, VOCABULARY = 4, 2, 16, 64, 96, 2, 50


@dataclasses.dataclass
class TinyLlama:
    """`tensors` holds float32 arrays under Hugging Face names, as they are after a trip through the type."""

    path: object
    tensors: dict


def interleave(rows, heads):
    """llama.cpp's order of q and k rows: halves of a head become pairs."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


def hf_shapes():
    shapes = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCABULARY, HIDDEN),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (HIDDEN,),
            prefix + "post_attention_layernorm.weight": (HIDDEN,),
            prefix + "self_attn.q_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
            prefix + "mlp.gate_proj.weight": (INNER, HIDDEN),
            prefix + "mlp.up_proj.weight": (INNER, HIDDEN),
            prefix + "mlp.down_proj.weight": (HIDDEN, INNER),
        }
    return shapes


def write(path, type_name="F32", architecture="llama", *, leave_out=(), extra=(), change=None):
    """`extra` are (key, uint32) pairs; `change(writer)` may add anything else."""
    import gguf

    kind = gguf.GGMLQuantizationType[type_name]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    for key, value in extra:
        writer.add_uint32(key, value)
    if change:
        change(writer)
    draw, tensors = np.random.default_rng(1), {}
    for name, shape in hf_shapes().items():
        if name in leave_out:
            continue
        values = draw.normal(float("norm" in name), 0.2, shape).astype(np.float32)
        own = gguf.GGMLQuantizationType.F32 if values.ndim == 1 else kind
        heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else 0
        order = (lambda x, n=heads: interleave(x, n)) if heads and architecture == "llama" else (lambda x: x)
        tensors[name] = gguf.dequantize(gguf.quantize(values, own), own)
        stem = names.get_name(name.removesuffix(".weight"))
        writer.add_tensor(f"{stem}.weight", gguf.quantize(order(values), own), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return TinyLlama(path, tensors)


@pytest.fixture(scope="session")
def write_tiny_gguf():
    return write


@pytest.fixture(scope="session")
def causal():
    """Attention of one whole sequence: nothing to keep."""

    def attend(layer, q, k, v):
        import torch

        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return out[0].transpose(0, 1)

    return attend
