"""OpenVINO GenAI with continuous batching and prefix caching; it reads the GGUF file itself.

It comes as a library, so a small server of ours (`openvino_server.py`) runs it in its environment.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.peers import openvino_server
from benchmarks.peers.base import KV_GIB, Endpoint, Packages, Setup, free_port, make_environment, serving

PACKAGES = Packages(("openvino-genai==2026.4.1.0", "starlette", "uvicorn", "httptools"))


class OpenVino:
    name = "openvino"

    def install(self, env: Path) -> None:
        make_environment(env, PACKAGES)

    def serve(self, env: Path, setup: Setup) -> AbstractContextManager[Endpoint]:
        port = free_port()
        script = Path(openvino_server.__file__)
        # -P: the script's own folder holds modules named like the packages that it imports.
        command = [str(env / "bin" / "python"), "-P", str(script), str(setup.model), str(port), str(KV_GIB)]
        return serving([*command, str(setup.threads)], port, env / "server.log")
