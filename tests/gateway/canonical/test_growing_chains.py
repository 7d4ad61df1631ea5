"""The memo of digest chains: the same chain with it and without, and bounded."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.canonical.chain import digest_chain
from gateway.canonical.growing import GrowingChains
from gateway.dialects.base import Conversation
from tests.examples import examples

SCALARS = st.sampled_from([0, 1, 1.0, True, False, None, "", "a", "\ud800", 2**70])
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": SCALARS}), max_size=4)
TOOLS = st.lists(st.fixed_dictionaries({"name": SCALARS, "cache_control": SCALARS}), max_size=2)
CONVERSATIONS = st.builds(
    Conversation,
    model=st.sampled_from(["m", "n"]),
    options=st.dictionaries(st.just("documents"), SCALARS),
    tools=TOOLS,
    messages=MESSAGES,
    head=st.just(0),
    growing=st.booleans(),
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["t", "u"]), CONVERSATIONS), max_size=6))
def test_a_chain_is_the_same_whatever_was_asked_before(asked):
    memo = GrowingChains(max_bytes=400)
    for tenant, conversation in asked:
        assert memo.chain(tenant, conversation) == digest_chain(tenant, conversation)


def _turn(count, first="hello"):
    messages = [{"role": "user", "content": first}, *({"role": "user", "content": str(n)} for n in range(count))]
    return Conversation("m", {}, [{"name": "f"}], messages, head=0)


def test_a_longer_turn_takes_the_known_blocks_over():
    memo = GrowingChains()
    before, after = memo.chain("t", _turn(3)), memo.chain("t", _turn(4))
    assert all(old is new for old, new in zip(before.blocks, after.blocks, strict=False))
    assert len(memo) == 1


def test_the_oldest_conversations_are_forgotten():
    memo = GrowingChains(max_bytes=1000)
    for number in range(100):
        memo.chain("t", _turn(2, first=str(number)))
    assert 1 <= len(memo) < 10


def test_one_that_is_larger_than_all_room_is_not_kept():
    memo = GrowingChains(max_bytes=100)
    conversation = _turn(2, first="x" * 1000)
    assert memo.chain("t", conversation) == digest_chain("t", conversation)
    assert len(memo) == 0
