from __future__ import annotations

from gateway.placement.heads import MAX_HEADS, MAX_HOLDERS, Heads


def test_all_that_were_sent_a_head_hold_it():
    heads = Heads()
    heads.sent("h", 400, "a", "e", 1)
    heads.sent("h", 400, "b", "e", 2)
    heads.sent("h", 400, "a", "e2", 3)
    assert {(m.binding.replica, m.binding.epoch, m.binding.used_ms) for m in heads.matches("h")} == {
        ("a", "e2", 3),
        ("b", "e", 2),
    }
    assert heads.matches("other") == []


def test_without_tools_or_system_messages_there_is_no_head():
    heads = Heads()
    heads.sent("root", 0, "a", "e", 1)
    assert heads.matches("root") == []


def test_memory_is_bounded():
    heads = Heads()
    for number in range(MAX_HOLDERS + 5):
        heads.sent("h", 400, f"r{number}", "e", number)
    assert len(heads.matches("h")) == MAX_HOLDERS
    for number in range(MAX_HEADS):
        heads.sent(f"h{number}", 400, "a", "e", 1)
    assert heads.matches("h") == []
    assert len(heads) == MAX_HEADS
