from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.affinity.base import Binding, decode_binding
from gateway.affinity.local import LocalBindings


def binding(used_ms, replica="http://r"):
    return Binding(replica, "e", 10, "l", used_ms)


def test_later_use_wins_whatever_the_order():
    local = LocalBindings(10, 1000)
    local.put("k", binding(5, "http://new"))
    local.put("k", binding(4, "http://old"))
    assert local.get("k", 6).replica == "http://new"


def test_expires_and_is_bounded():
    local = LocalBindings(2, 1000)
    for key in "abc":
        local.put(key, binding(0))
    assert [local.get(key, 1) is not None for key in "abc"] == [False, True, True]
    assert local.get("b", 1001) is None
    assert len(local) == 1


def test_reading_keeps_alive():
    local = LocalBindings(2, 1000)
    local.put("a", binding(0))
    local.put("b", binding(0))
    local.get("a", 0)
    local.put("c", binding(0))
    assert local.get("a", 0)
    assert not local.get("b", 0)


def test_encoding_round_trip():
    one = Binding("http://127.0.0.1:1", "boot", 12, "abc", 99)
    assert decode_binding(one.encode()) == one


@given(st.none() | st.binary(max_size=30))
def test_garbage_decodes_to_none(raw):
    assert decode_binding(raw) is None
