"""The chain's one law: ids agree exactly as far as the conversations do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.canonical.chain import digest_chain
from gateway.dialects.chat import Chat
from gateway.dialects.completions import BLOCK_CHARS, Completions

roles = st.sampled_from(["system", "user", "assistant", "tool"])
messages = st.lists(st.fixed_dictionaries({"role": roles, "content": st.text(max_size=8)}), max_size=6)
tools = st.lists(st.fixed_dictionaries({"type": st.just("function"), "name": st.text(max_size=3)}), max_size=3)


def chain(messages, tools=(), tenant="t", **body):
    return digest_chain(tenant, Chat().parse({"model": "m", "messages": messages, "tools": list(tools), **body}))


def ids(chain):
    return [link.id for link in chain.links]


@given(messages, messages, tools)
def test_a_longer_conversation_extends_the_chain(turns, more, offered):
    before, after = ids(chain(turns, offered)), ids(chain(turns + more, offered))
    assert after[: len(before)] == before
    assert len(set(after)) == len(after)


@given(messages, messages)
def test_ids_agree_exactly_as_far_as_the_messages(one, other):
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    left, right = ids(chain(one)), ids(chain(other))
    agree = sum(a == b for a, b in zip(left, right, strict=False))
    assert agree == same + 1  # the root


@given(tools, tools, messages)
def test_tools_come_before_messages_and_their_order_counts(one, other, turns):
    assert (ids(chain(turns, one)) == ids(chain(turns, other))) == (one == other)


def test_tenant_model_and_options_separate_everything():
    turns = [{"role": "user", "content": "x"}]
    chains = [
        chain(turns),
        chain(turns, tenant="u"),
        chain(turns, model="n"),
        chain(turns, chat_template_kwargs={"enable_thinking": False}),
    ]
    assert len({i for c in chains for i in ids(c)}) == sum(len(c.links) for c in chains)


def test_tool_block_is_no_message():
    tool = {"role": "user", "content": "x"}
    assert ids(chain([tool])) != ids(chain([], [tool]))


def test_sampling_fields_do_not_count():
    turns = [{"role": "user", "content": "x"}]
    assert ids(chain(turns)) == ids(chain(turns, temperature=1.0, stream=True, max_tokens=3, user="u"))


def test_head_and_anchors():
    system, user = {"role": "system", "content": "s"}, {"role": "user", "content": "u"}
    assert (chain([user]).head, chain([user]).anchors) == (0, (1,))
    assert (chain([system, user]).head, chain([system, user]).anchors) == (1, (1, 2))
    with_tools = chain([system, user], [{"name": "f"}])
    assert (with_tools.head, with_tools.anchors) == (2, (2, 3))
    assert chain([]).anchors == ()


def test_longer_prompt_extends_the_full_blocks_of_a_shorter_one():
    def prompt_ids(prompt):
        return digest_chain("t", Completions().parse({"model": "m", "prompt": prompt}))

    short = prompt_ids("a" * (BLOCK_CHARS + 10))
    long = prompt_ids("a" * (BLOCK_CHARS + 10) + "b")
    assert ids(short)[:2] == ids(long)[:2]
    assert ids(short)[2] != ids(long)[2]
    assert short.anchors == (1, 2)
    assert ids(prompt_ids(["x"])) == ids(prompt_ids("x")) != ids(prompt_ids(["x", "y"]))
    assert ids(prompt_ids(list(range(600))))[:2] == ids(prompt_ids(list(range(700))))[:2]


def test_size_grows_with_the_canonical_bytes():
    sizes = [link.size for link in chain([{"role": "user", "content": "x" * n} for n in (10, 1000)]).links]
    assert sizes == sorted(sizes)
    assert sizes[-1] - sizes[-2] > 1000
