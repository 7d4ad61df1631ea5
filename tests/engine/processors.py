"""Processors of the x86-64 family other than this one, by the compiler's flags: each takes paths of its own."""

from __future__ import annotations

import platform

import pytest

OTHER_PROCESSORS = {
    "without tiles": ("-march=native", "-mno-amx-bf16", "-mno-amx-tile"),
    "AVX2": ("-march=x86-64-v3",),
    "no vectors": ("-march=x86-64",),
}


def on_other_processors(test):
    """The test once for each, with its `flags`."""
    flags = pytest.mark.parametrize("flags", OTHER_PROCESSORS.values(), ids=OTHER_PROCESSORS.keys())
    return pytest.mark.skipif(platform.machine() != "x86_64", reason="compiled for the x86-64 family")(flags(test))
