"""A whole message is what a client would put together from the stream's deltas."""

from __future__ import annotations

import pytest

from engine.output.stream import Delta, ToolDelta
from engine.server.chat import _joined_calls, _joined_texts

CALL = [
    Delta(tool=ToolDelta(0, "", "call_1", "run")),
    Delta(tool=ToolDelta(0, '{"a"')),
    Delta(tool=ToolDelta(0, ": 1}")),
]


@pytest.mark.parametrize(
    ("deltas", "texts"),
    [
        ([], {}),
        ([Delta(content="a"), Delta(content="b")], {"content": "ab"}),
        ([Delta(reasoning="x"), Delta(reasoning="y"), Delta(content="a")], {"reasoning_content": "xy", "content": "a"}),
        ([Delta(content="a"), *CALL], {"content": "a"}),
        (CALL, {}),
    ],
)
def test_texts_by_kind(deltas, texts):
    assert _joined_texts(deltas) == texts


def test_a_call_from_its_pieces():
    function = {"name": "run", "arguments": '{"a": 1}'}
    assert _joined_calls([Delta(content="a"), *CALL]) == [{"id": "call_1", "type": "function", "function": function}]
