"""Models from the Hugging Face hub, kept in Sapwood's own model folder."""

from __future__ import annotations

import sys
from pathlib import Path

from filelock import FileLock

from engine.errors import StartError

SETTINGS = ["*.json", "*.model", "*.jinja"]
SAFETENSORS, GGUF = "*.safetensors", "*.gguf"

# Second copies of the same weights, in formats that are not read.
IGNORED = ["consolidated*", "original/*", "onnx/*"]

# Written when a download is whole; it makes the next start instant, and possible without a network.
COMPLETE = ".complete"

TIMEOUT_S = 20


def fetch_from_hub(hub_id: str, folder: Path) -> Path:
    """The model's local folder. GGUF files are fetched only where a model has no safetensors.

    A download that was killed goes on where it stopped.
    """
    if (folder / COMPLETE).exists():
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            _download(hub_id, folder)
    except StartError:
        raise
    except Exception as error:  # the hub client's transport errors have no common base
        raise StartError(f"can't fetch {hub_id} from the Hugging Face hub: {_one_line(error)}") from None
    return folder


def _download(hub_id: str, folder: Path) -> None:
    from huggingface_hub import model_info, snapshot_download
    from huggingface_hub.utils import filter_repo_objects

    # Listed first, because the client takes a folder that exists for the model when the hub does not answer.
    files = [file.rfilename for file in model_info(hub_id, timeout=TIMEOUT_S).siblings or ()]
    patterns = [*SETTINGS, _weights(hub_id, files)]
    if not sys.stderr.isatty():
        print(f"fetching {hub_id} from the Hugging Face hub", file=sys.stderr, flush=True)
    snapshot_download(hub_id, local_dir=folder, allow_patterns=patterns, ignore_patterns=IGNORED)
    wanted = filter_repo_objects(files, allow_patterns=patterns, ignore_patterns=IGNORED)
    missing = [file for file in wanted if not (folder / file).exists()]
    if missing:
        raise StartError(f"{hub_id}: the download stopped before {missing[0]}; run it again to go on")
    (folder / COMPLETE).touch()


def _weights(hub_id: str, files: list[str]) -> str:
    """The pattern of the weights to fetch."""
    for pattern in (SAFETENSORS, GGUF):
        if any(Path(file).match(pattern) for file in files):
            return pattern
    raise StartError(f"{hub_id}: has neither safetensors nor GGUF files")


def _one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
