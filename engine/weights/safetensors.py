"""A Hugging Face model folder: `config.json` and one or several safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import StartError
from engine.weights.blocks import Blocks
from engine.weights.hf_config import read_config, read_json

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


class FolderCheckpoint:
    """Tensors are read lazily, one at a time, from memory-mapped shards."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.resolve().name
        self.folder: Path | None = folder
        self.metadata: Mapping[str, Any] = {}
        self.config = read_config(folder)
        self.norms_from_one = self.config.architecture == "gemma3_text"
        self._folder = folder
        self._shards: dict[Path, Any] = {}
        self._where = self._index()

    def has(self, name: str) -> bool:
        return name in self._where

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._holding(name).get_slice(name).get_shape())

    def tensor(self, name: str, dtype: torch.dtype) -> Tensor:
        stored: Tensor = self._holding(name).get_tensor(name)
        if not stored.is_floating_point():
            raise StartError(f"{self._folder}: tensor {name} is stored as {stored.dtype}, which is not supported")
        return stored.to(dtype)

    def blocks(self, name: str) -> Blocks | None:
        """Folders of 4-bit weights have formats of their own, none of which is read yet."""
        return None

    def _index(self) -> dict[str, Path]:
        """Which shard holds which tensor: from the index file, or from the only shards there are."""
        listed = read_json(self._folder / INDEX_FILE).get("weight_map")
        if listed:
            return {name: self._folder / file for name, file in listed.items()}
        single = self._folder / SINGLE_FILE
        files = [single] if single.exists() else sorted(self._folder.glob("*.safetensors"))
        if not files:
            raise StartError(f"{self._folder}: holds a config.json but no *.safetensors file")
        return {name: file for file in files for name in self._shard(file).keys()}  # noqa: SIM118

    def _holding(self, name: str) -> Any:
        """The shard of a tensor; StartError when there is none, or the index names a shard without it."""
        shard = self._shard(self._where[name]) if name in self._where else None
        if shard is None or name not in shard.keys():  # noqa: SIM118
            raise StartError(f"{self._folder}: tensor {name} is missing")
        return shard

    def _shard(self, file: Path) -> Any:
        if file not in self._shards:
            self._shards[file] = _open(file)
        return self._shards[file]


def _open(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt", device="cpu")
    except (OSError, SafetensorError) as error:
        raise StartError(f"{file}: can't be read as safetensors: {error}; fetch it again") from None
