"""Output is kept whole below the limit, and as head and tail above it."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tools.sandbox.capture import HeadTail

LINES = st.lists(st.text(alphabet="abc", max_size=20), max_size=60).map(lambda lines: "\n".join(lines).encode())


@given(data=LINES, sizes=st.lists(st.integers(1, 40), min_size=1), limit=st.integers(2, 400))
def test_head_and_tail_are_pieces_of_the_output(data: bytes, sizes: list[int], limit: int) -> None:
    kept, position, turn = HeadTail(limit), 0, 0
    while position < len(data):
        size = sizes[turn % len(sizes)]
        kept.feed(data[position : position + size])
        position, turn = position + size, turn + 1
    text = kept.text()
    if len(data) <= limit // 2 * 2:
        assert (text, kept.omitted) == (data.decode(), 0)
        return
    found = re.search(r"\[\.\.\. (\d+) bytes left out \.\.\.\]\n", text)
    assert found
    head, tail = text[: found.start()], text[found.end() :]
    assert data.decode().startswith(head.removesuffix("\n"))
    assert data.decode().endswith(tail)
    assert len(text) <= limit + 60


def test_terminal_escapes_are_dropped() -> None:
    kept = HeadTail(1000)
    kept.feed(b"\x1b[31mred\x1b[0m \x1b]0;title\x07plain\r\n\xff")
    assert kept.text() == "red plain\n\ufffd"
