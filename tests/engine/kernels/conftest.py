"""Kernels run in Triton's interpreter, which must be asked for before triton is imported: in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def interpreted():
    """Runs pytest on files of this folder that are not collected otherwise; its last lines if it fails."""

    def run(*names, timeout=110):
        files = [f"tests/engine/kernels/{name}" for name in names]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files],
            cwd=ROOT,
            env={**os.environ, "TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout[-4000:]

    return run


@dataclass(frozen=True)
class Usage:
    registers: int
    spilled: int
    shared: int


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Compiles a kernel for a GPU that need not be there; what the assembler says of it."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from engine.kernels import attention

    reader = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not reader.exists():
        pytest.skip("this triton has no tools for NVIDIA GPUs")
    binary = tmp_path_factory.mktemp("kernels") / "kernel.cubin"

    def compile_for(name, signature, constants, capability):
        kernel = getattr(attention, name)
        types = {**signature, **dict.fromkeys(constants, "constexpr")}
        ordered = {argument: types[argument] for argument in kernel.arg_names}
        made = triton.compile(
            ASTSource(kernel, ordered, constants, _aligned(ordered)),
            target=GPUTarget("cuda", capability, 32),
            options={"num_warps": attention.warps_for(constants["ROWS"])},
        )
        binary.write_bytes(made.asm["cubin"])
        said = subprocess.run(
            [reader, "--dump-resource-usage", binary], capture_output=True, text=True, check=True
        ).stdout
        registers, stack = (int(re.search(rf"{key}:(\d+)", said)[1]) for key in ("REG", "STACK"))
        return Usage(registers, stack, made.metadata.shared)

    return compile_for


def _aligned(types):
    """What a launch finds out: pointers and strides are multiples of 16."""
    sure = ("_stride", "_token", "_head", "_split")
    return {
        (place,): [["tt.divisibility", 16]]
        for place, (name, kind) in enumerate(types.items())
        if kind.startswith("*") or (kind == "i32" and name.endswith(sure) and name != "lse_token")
    }
