"""A model on disk behind one interface, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.errors import StartError
from engine.model.config import ModelConfig
from engine.weights.blocks import Blocks


class Checkpoint(Protocol):
    """An open model. Names and layouts are Hugging Face's (`model.layers.0.self_attn.q_proj.weight`)."""

    @property
    def name(self) -> str:
        """The file's stem or the folder's name."""
        ...

    @property
    def folder(self) -> Path | None:
        """Where `tokenizer.json` and its kin lie; None for a GGUF file, which holds them itself."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The key-values of a GGUF file, with arrays as lists; empty for a folder."""
        ...

    @property
    def config(self) -> ModelConfig: ...

    @property
    def norms_from_one(self) -> bool:
        """The weights of norms are stored as what they differ from 1."""
        ...

    def has(self, name: str) -> bool: ...

    def shape(self, name: str) -> tuple[int, ...]:
        """What `tensor` would return, known without reading data; raises what `tensor` would raise."""
        ...

    def tensor(self, name: str, dtype: torch.dtype) -> Tensor:
        """A fresh tensor that the caller owns. StartError when it is missing or its type is unknown."""
        ...

    def blocks(self, name: str) -> Blocks | None:
        """The quantised blocks of a matrix, rows in the order of `tensor`; None where it is stored otherwise."""
        ...


def open_checkpoint(path: Path) -> Checkpoint:
    """Opens a `.gguf` file, a folder with `config.json` and safetensors, or one with a single `.gguf`."""
    if not path.exists():
        raise StartError(f"{path}: no such file or folder")
    if path.is_dir() and (path / "config.json").exists():
        from engine.weights.safetensors import FolderCheckpoint

        return FolderCheckpoint(path)
    from engine.weights.gguf_checkpoint import GgufCheckpoint

    return GgufCheckpoint(_only_gguf(path) if path.is_dir() else path)


def _only_gguf(folder: Path) -> Path:
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    if not files:
        raise StartError(f"{folder}: holds neither config.json nor a .gguf file")
    names = ", ".join(file.name for file in files)
    raise StartError(f"{folder}: holds several .gguf files; name the one to use: {names}")
