"""Triton kernels without a GPU: interpreted against the formula, and compiled ahead for the GPUs that are served."""

from __future__ import annotations

import pytest


def test_in_the_interpreter(interpreted):
    pytest.importorskip("triton")
    interpreted("interpreted_attention.py", "interpreted_layer.py")


ATTEND = {
    **dict.fromkeys(("q", "keys", "values"), "*bf16"),
    **dict.fromkeys(("out", "lse"), "*fp32"),
    **dict.fromkeys(("tile_request", "tile_row", "query_start", "key_length", "page_start", "pages"), "*i32"),
    **dict.fromkeys(("scale", "soft_cap", "key_scale", "value_scale"), "fp32"),
    **dict.fromkeys(("q_token", "q_head", "page_stride", "slot_stride", "head_stride"), "i32"),
    **dict.fromkeys(("out_split", "out_token", "out_head", "lse_split", "lse_token", "split_size", "window"), "i32"),
}
SHAPES = {
    # name: (constants, keys' type, registers, shared memory in bytes at most)
    "prefill 128": ({"GROUP": 7, "PAGE": 16, "HEAD": 128, "ROWS": 64, "COLUMNS": 64}, "*bf16"),
    "decode 128": ({"GROUP": 8, "PAGE": 16, "HEAD": 128, "ROWS": 16, "COLUMNS": 64}, "*bf16"),
    "decode 128, eight bits": ({"GROUP": 8, "PAGE": 16, "HEAD": 128, "ROWS": 16, "COLUMNS": 64}, "*fp8e4nv"),
    "window 256": ({"GROUP": 4, "PAGE": 16, "HEAD": 256, "ROWS": 32, "COLUMNS": 32, "WINDOWED": True}, "*bf16"),
}
SHARED = {80: 163 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10}
"""Shared memory that one block may have, by compute capability."""


QUICK = [("prefill 128", 90), ("decode 128", 80)]
ALL = [(shape, capability) for shape in SHAPES for capability in SHARED if (shape, capability) not in QUICK]


@pytest.mark.parametrize(
    ("shape", "capability"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in ALL)]
)
def test_compiled_ahead_without_spills(compiled, shape, capability):
    constants, stored = SHAPES[shape]
    if stored == "*fp8e4nv" and capability < 89:
        pytest.skip("this GPU has no such type")
    constants = {"CAPPED": False, "WINDOWED": False, **constants, "WIDTH": constants["HEAD"]}
    usage = compiled("attend", {**ATTEND, "keys": stored, "values": stored}, constants, capability)
    assert usage.spilled == 0
    assert 0 < usage.registers <= 255
    assert usage.shared <= SHARED[capability]
