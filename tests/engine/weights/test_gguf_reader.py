"""The reader alone: values of every type, and files that are damaged in every place."""

from __future__ import annotations

import struct
import time

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import StartError
from engine.weights.gguf import Gguf

VALUES = {
    "a.uint8": ("add_uint8", 200),
    "a.int8": ("add_int8", -100),
    "a.uint16": ("add_uint16", 60000),
    "a.int16": ("add_int16", -30000),
    "a.uint32": ("add_uint32", 4_000_000_000),
    "a.int32": ("add_int32", -2_000_000_000),
    "a.uint64": ("add_uint64", 2**63),
    "a.int64": ("add_int64", -(2**62)),
    "a.float32": ("add_float32", 0.25),
    "a.float64": ("add_float64", 0.1),
    "a.bool": ("add_bool", True),
    "a.string": ("add_string", "grüße \n"),
    "a.strings": ("add_array", ["", "one", "зерно", "\u0120x"]),
    "a.integers": ("add_array", [1, 2, -3]),
    "a.floats": ("add_array", [0.5, -2.0]),
    "a.bools": ("add_array", [True, False]),
    "a.nested": ("add_array", [[1, 2], [3, 4]]),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A small file with one value of each type and two tensors."""
    path = tmp_path_factory.mktemp("gguf") / "whole.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, (method, value) in VALUES.items():
        getattr(writer, method)(key, value)
    writer.add_tensor("first", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.add_tensor("second", np.arange(5, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def header(version=3, tensors=0, keys=0, magic=b"GGUF"):
    return magic + struct.pack("<IQQ", version, tensors, keys)


def string(text):
    return struct.pack("<Q", len(text)) + text


def open_bytes(folder, data):
    path = folder / "model.gguf"
    path.write_bytes(data)
    return Gguf(path)


@pytest.mark.parametrize("key", VALUES)
def test_values_of_every_type(whole, key):
    assert Gguf(whole).metadata[key] == VALUES[key][1]


def test_tensors_are_found_with_row_major_shapes(whole):
    file = Gguf(whole)
    first, second = file.tensors["first"], file.tensors["second"]
    assert (first.shape, second.shape) == ((3, 4), (5,))
    np.testing.assert_array_equal(file.raw(first).view(np.float32), np.arange(12))
    np.testing.assert_array_equal(file.raw(second).view(np.float16), np.arange(5))


def test_memory_is_the_readers_own(whole):
    before = whole.read_bytes()
    file = Gguf(whole)
    file.raw(file.tensors["first"])[:] = 255
    assert whole.read_bytes() == before


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"GG", "starts with"),
        (b"PK\x03\x04" + bytes(40), "starts with"),
        (header(version=1), "version 1 is not supported"),
        (header(version=3 << 24), "not supported"),
        (header()[:15], "truncated"),
        (header(tensors=2**60), "claims 1152921504606846976 tensors"),
        (header(keys=2**63), "keys, more than"),
        (header(keys=1) + struct.pack("<Q", 2**62) + bytes(40), "truncated"),
        (header(keys=1) + string(b"k") + struct.pack("<I", 77) + bytes(40), "unknown type 77"),
        (header(keys=1) + string(b"k") + struct.pack("<IIQ", 9, 8, 2**61) + bytes(40), "truncated"),
        (header(keys=1) + string(b"k") + struct.pack("<IIQ", 9, 4, 2**61) + bytes(40), "truncated"),
        (header(keys=1) + string(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 50, "unknown type 9"),
        (header(keys=1) + string(b"\xff\xfe") + struct.pack("<IB", 0, 1) + bytes(9), "not UTF-8"),
        (header(tensors=1) + string(b"t") + struct.pack("<I", 9) + bytes(80), "9 dimensions"),
        (header(tensors=1) + string(b"t") + struct.pack("<IQIQ", 1, 2**40, 0, 0), "truncated.*tensor t ends"),
        (header(tensors=1) + string(b"t") + struct.pack("<IQIQ", 1, 33, 2, 0) + bytes(99), "multiple of 32"),
        (header(tensors=1) + string(b"t") + struct.pack("<IQIQ", 1, 1, 0, 7) + bytes(99), "multiple of 32 bytes"),
        (header(tensors=2) + (string(b"t") + struct.pack("<IQIQ", 1, 1, 0, 0)) * 2 + bytes(99), "there twice"),
        (header(keys=1) + string(b"general.alignment") + struct.pack("<II", 4, 0) + bytes(9), "power of two"),
    ],
)
def test_damage_is_told_in_one_line_that_names_the_file(tmp_path, data, words):
    with pytest.raises(StartError, match=words) as caught:
        open_bytes(tmp_path, data)
    message = str(caught.value)
    assert "model.gguf" in message
    assert "\n" not in message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StartError, match=r"none\.gguf: can't be read: No such file"):
        Gguf(tmp_path / "none.gguf")


def test_every_truncation_is_noticed(whole, tmp_path):
    """At any length short of the last tensor's end; the writer pads after it."""
    data = whole.read_bytes()
    end = max(tensor.offset + tensor.size for tensor in Gguf(whole).tensors.values())
    for length in [*range(0, end, 7), end - 1]:
        with pytest.raises(StartError):
            open_bytes(tmp_path, data[:length])
    assert open_bytes(tmp_path, data[:end]).tensors.keys() == {"first", "second"}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bytes_never_give_a_traceback(whole, tmp_path, data):
    damaged = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        file = open_bytes(tmp_path, bytes(damaged))
    except StartError:
        return
    for tensor in file.tensors.values():
        assert len(file.raw(tensor)) == tensor.size


def test_the_real_model_opens_in_no_time(smollm2_path):
    start = time.process_time()
    file = Gguf(smollm2_path)
    assert time.process_time() - start < 0.5
    assert len(file.metadata["tokenizer.ggml.merges"]) == 48900
    assert len(file.tensors) == 272
