"""Reads GGUF files: metadata at once, tensors lazily from a memory map.

The layout follows the public GGUF specification, versions 2 and 3, little-endian: header, key-values, tensor
descriptions, padding, tensor data. Everything that a damaged file could get wrong is checked here, so that
the rest of the engine may trust offsets and sizes; every complaint is one StartError that names the file.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import StartError
from engine.weights.quant import QuantType, block_layout

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMENSIONS = 4
MAX_ARRAY_DEPTH = 4
DEFAULT_ALIGNMENT = 32
READABLE: dict[int, QuantType] = {kind.value: kind for kind in QuantType}

STRING, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

# The fewest bytes that one entry takes: key length, type, one byte / name length, dimensions, type, offset.
SMALLEST_KEY_VALUE = 13
SMALLEST_TENSOR = 24


@dataclass(frozen=True)
class GgufTensor:
    """Where one tensor lies. `shape` is row-major (GGUF writes it reversed); `offset` counts from byte 0."""

    name: str
    kind: QuantType | int
    shape: tuple[int, ...]
    offset: int
    size: int


class Gguf:
    """An open GGUF file: `metadata` and `tensors` are read, the data stays on disk until it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._map = _map_file(path)
        cursor = _Cursor(self._map, path)
        tensor_count, key_count = _read_header(cursor)
        self.metadata: Mapping[str, Any] = _read_metadata(cursor, key_count)
        self.tensors: Mapping[str, GgufTensor] = _read_index(cursor, tensor_count, self._alignment())

    def raw(self, tensor: GgufTensor) -> npt.NDArray[np.uint8]:
        """The tensor's bytes as stored, a view into the map; writing to it never reaches the file."""
        return np.frombuffer(self._map, np.uint8, tensor.size, tensor.offset)

    def _alignment(self) -> int:
        alignment = self.metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise _damaged(self.path, f"general.alignment is {alignment!r}, not a power of two")
        return alignment


class _Cursor:
    """A position in the file whose every step is checked against the end."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data = data
        self.path = path
        self.size = len(data)
        self.at = 0

    @property
    def left(self) -> int:
        return self.size - self.at

    def scalar(self, code: str) -> Any:
        step = struct.calcsize("<" + code)
        self.need(step)
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += step
        return value

    def string(self) -> str:
        return self.strings(1)[0]

    def strings(self, count: int) -> list[str]:
        """Many strings in one tight loop: vocabularies and merges are arrays of 50,000 to 300,000 of them."""
        self.need(8 * count)
        data, at, size, length_of = self.data, self.at, self.size, struct.Struct("<Q").unpack_from
        found = []
        try:
            for _ in range(count):
                start = at + 8
                at = start + length_of(data, at)[0]
                if at > size:
                    raise _truncated(self.path)
                found.append(data[start:at].decode())
        except struct.error:
            raise _truncated(self.path) from None
        except UnicodeDecodeError:
            raise _damaged(self.path, f"a string at byte {start} is not UTF-8") from None
        self.at = at
        return found

    def numbers(self, code: str, count: int) -> list[Any]:
        step = struct.calcsize("<" + code)
        self.need(step * count)
        values = np.frombuffer(self.data, np.dtype(code).newbyteorder("<"), count, self.at)
        self.at += step * count
        return list(values.tolist())

    def need(self, count: int) -> None:
        if count > self.left:
            raise _truncated(self.path)


def _map_file(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            # A private map: torch wants writable memory, and nothing may ever change the file.
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise StartError(f"{path}: can't be read: {error.strerror or error}") from None
    except ValueError:
        raise _damaged(path, "the file is empty") from None


def _read_header(cursor: _Cursor) -> tuple[int, int]:
    """Tensor count and key-value count, both small enough to fit into the file."""
    if cursor.data[:4] != MAGIC:
        raise _damaged(cursor.path, f"it starts with {cursor.data[:4]!r} instead of {MAGIC!r}")
    cursor.at = 4
    version = cursor.scalar("I")
    if version not in VERSIONS:
        raise StartError(
            f"{cursor.path}: GGUF version {version} is not supported (little-endian 2 and 3 are); convert it again"
        )
    tensor_count, key_count = cursor.scalar("Q"), cursor.scalar("Q")
    if tensor_count * SMALLEST_TENSOR + key_count * SMALLEST_KEY_VALUE > cursor.left:
        raise _damaged(
            cursor.path,
            f"it claims {tensor_count} tensors and {key_count} keys, more than {cursor.size} bytes can hold",
        )
    return tensor_count, key_count


def _read_metadata(cursor: _Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = cursor.string()
        metadata[key] = _read_value(cursor, cursor.scalar("I"), 0)
    return metadata


def _read_value(cursor: _Cursor, kind: int, depth: int) -> Any:
    if kind == STRING:
        return cursor.string()
    if kind == ARRAY and depth < MAX_ARRAY_DEPTH:
        return _read_array(cursor, depth + 1)
    if kind not in SCALARS:
        raise _damaged(cursor.path, f"a metadata value has the unknown type {kind}")
    return cursor.scalar(SCALARS[kind])


def _read_array(cursor: _Cursor, depth: int) -> list[Any]:
    kind, count = cursor.scalar("I"), cursor.scalar("Q")
    if kind == STRING:
        return cursor.strings(count)
    if kind in SCALARS:
        return cursor.numbers(SCALARS[kind], count)
    cursor.need(count)
    return [_read_value(cursor, kind, depth) for _ in range(count)]


def _read_index(cursor: _Cursor, count: int, alignment: int) -> dict[str, GgufTensor]:
    described = [_read_description(cursor) for _ in range(count)]
    start = -(-cursor.at // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    for name, kind, shape, offset in described:
        if name in tensors:
            raise _damaged(cursor.path, f"tensor {name} is there twice")
        tensor = GgufTensor(name, kind, shape, start + offset, _stored_size(cursor.path, name, kind, shape))
        if offset % alignment:
            raise _damaged(cursor.path, f"tensor {name} does not start at a multiple of {alignment} bytes")
        if tensor.offset + tensor.size > cursor.size:
            raise _truncated(cursor.path, f", tensor {name} ends at byte {tensor.offset + tensor.size}")
        tensors[name] = tensor
    return tensors


def _read_description(cursor: _Cursor) -> tuple[str, QuantType | int, tuple[int, ...], int]:
    name, dimensions = cursor.string(), cursor.scalar("I")
    if dimensions > MAX_DIMENSIONS:
        raise _damaged(cursor.path, f"tensor {name} has {dimensions} dimensions")
    shape = tuple(reversed(cursor.numbers("Q", dimensions)))
    kind, offset = cursor.scalar("I"), cursor.scalar("Q")
    return name, READABLE.get(kind, kind), shape, offset


def _stored_size(path: Path, name: str, kind: QuantType | int, shape: tuple[int, ...]) -> int:
    """Bytes on disk; 0 for a type that we can't read, which only matters if somebody asks for the tensor."""
    if not isinstance(kind, QuantType):
        return 0
    elements, size = block_layout(kind)
    row = shape[-1] if shape else 1
    if row % elements:
        raise _damaged(path, f"tensor {name} has rows of {row} elements, not a multiple of {elements}")
    return math.prod(shape) // elements * size


def _damaged(path: Path, what: str) -> StartError:
    return StartError(f"{path}: not a usable GGUF file: {what}")


def _truncated(path: Path, detail: str = "") -> StartError:
    size = path.stat().st_size
    return StartError(f"{path}: the GGUF file is truncated: it has only {size} bytes{detail}; fetch it again")
