"""What sessions sent last: bounded, and the right one found."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.canonical.chain import digest_chain
from gateway.dialects.chat import Chat
from gateway.observe.gap import Home
from gateway.observe.memory import MAX_TIPS, Memory, Tip
from tests.examples import examples

HOME = Home("http://a", "boot-1", 0)


def chain(*texts, system="s"):
    said = [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)]
    return digest_chain("t", Chat().parse({"model": "m", "messages": [{"role": "system", "content": system}, *said]}))


def remember(memory, key, found):
    memory.remember(key, "t", Tip(found, found.size // 4, HOME))


def test_branches_are_told_apart():
    memory = Memory()
    one, other = chain("q", "a", "left"), chain("q", "a", "right")
    for each in (one, other):
        remember(memory, "k", each)
    assert memory.recall("k", chain("q", "a", "left", "b", "c")).chain is one
    assert memory.recall("k", chain("q", "a", "right", "b", "c")).chain is other
    assert memory.recall("another", one) is None


def test_a_changed_head_is_found_by_the_first_question():
    memory = Memory()
    old = chain("fix it", "a", "b", system="today is Monday")
    remember(memory, "k", old)
    assert memory.recall_by_opener("t", chain("fix it", "a", "b", system="today is Tuesday")).chain is old
    assert memory.recall_by_opener("u", old) is None
    assert memory.recall_by_opener("t", chain("something else")) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 8), st.integers(0, 3)), max_size=40))
@settings(max_examples=examples(100))
def test_it_stays_within_its_bound(requests):
    memory = Memory(limit_bytes=5000)
    for key, turns, branch in requests:
        remember(memory, key, chain(f"branch {branch}", *(f"{key} {turn}" * 20 for turn in range(turns))))
        tips = [tip for session in memory._sessions.values() for tip in session.tips]
        assert memory.used_bytes == sum(tip.cost for tip in tips) <= 5000
        assert all(len(session.tips) <= MAX_TIPS for session in memory._sessions.values())
        assert set(memory._openers.values()) <= memory._sessions.keys()
