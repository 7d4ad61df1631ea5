"""Bodies: what is refused here, and that everything else is parsed without complaint."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.canonical.chain import digest_chain
from gateway.dialects.base import parse_object
from gateway.dialects.chat import Chat
from gateway.dialects.completions import Completions
from gateway.errors import GatewayError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
FIELDS = ("model", "messages", "tools", "functions", "prompt", "user", "prompt_cache_key", "documents")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b'{"a":NaN}',
        b"\xff\xfe{}",
        b'{"a":"\xc3"}',
        b"\xef\xbb\xbf{}",
        b'{"a":' + b"9" * 5000 + b"}",
        b"[" * 10_000_000,
        b'{"a":' * 2_000_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"messages":' + b"[" * 1100 + b"]" * 1100 + b"}",
    ],
    ids=lambda raw: repr(raw[:12]),
)
def test_no_json_object(raw):
    start = time.thread_time()
    with pytest.raises(GatewayError) as caught:
        parse_object(raw)
    assert time.thread_time() - start < 0.1
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), st.sampled_from([Chat(), Completions()]))
def test_any_object_has_a_chain(body, dialect):
    chain = digest_chain("t", dialect.parse(body))
    assert len(chain.links) >= 1
    assert 0 <= chain.head < len(chain.links)
    assert all(0 < anchor < len(chain.links) for anchor in chain.anchors)


@given(st.dictionaries(st.sampled_from(FIELDS), st.lists(JSON, max_size=4)))
def test_odd_messages_have_a_chain(body):
    assert len(digest_chain("t", Chat().parse(body)).links) >= 1
