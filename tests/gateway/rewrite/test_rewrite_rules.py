"""The rules that look at one request: what each changes, what it leaves, and that a second time changes nothing."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError
from gateway.rewrite.base import EFFECTS, Effect, RuleName
from gateway.rewrite.rewriter import Rewriter, Session
from gateway.rewrite.timestamps import to_the_day

BILLING = "x-anthropic-billing-header: cc_version=2.1.332.0b8; cc_entrypoint=sdk-cli;"
SESSION = Session("tenant", "s1")

words = st.text(max_size=30)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=8
)
lines = st.lists(st.sampled_from([BILLING, "You are X.", "Date: 2026-12-03T08:40:32Z", "", "a"]), max_size=5)
texts = lines.map("\n".join) | words
contents = texts | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=3) | values
roles = st.sampled_from(["system", "developer", "user", "assistant", "tool"])
messages = st.lists(st.fixed_dictionaries({"role": roles, "content": contents}) | values, max_size=5)
functions = st.fixed_dictionaries({"name": st.sampled_from("abcd"), "description": texts, "parameters": values})
tools = st.lists(functions | st.builds(lambda f: {"type": "function", "function": f}, functions) | values, max_size=5)
bodies = st.fixed_dictionaries({"model": st.just("m")}, optional={"messages": messages | values, "tools": tools})


def system(content, *others):
    return {"messages": [{"role": "system", "content": content}, *others, {"role": "user", "content": "hi"}]}


def tool(name, parameters=None, description="d"):
    function = {"name": name, "description": description, "parameters": parameters or {"type": "object"}}
    return {"type": "function", "function": function}


def rewritten(body, *rules):
    return Rewriter().rewrite(body, rules, SESSION)


def as_bag(value):
    """A JSON value without any order, also of its lists."""
    if isinstance(value, dict):
        return sorted(json.dumps([key, as_bag(item)]) for key, item in value.items())
    return sorted(json.dumps(as_bag(item)) for item in value) if isinstance(value, list) else value


@pytest.mark.parametrize("rule", RuleName)
@given(body=bodies)
def test_a_second_time_changes_nothing(rule, body):
    rewriter = Rewriter()
    once = rewriter.rewrite(body, {rule}, SESSION)
    twice = rewriter.rewrite(once.body, {rule}, SESSION)
    assert (twice.body, twice.notes) == (once.body, ())
    assert bool(once.notes) == (json.dumps(once.body) != json.dumps(body))


@given(bodies)
def test_all_rules_together_too(body):
    rewriter = Rewriter()
    once = rewriter.rewrite(body, RuleName, SESSION)
    assert rewriter.rewrite(once.body, RuleName, SESSION).body == once.body


@pytest.mark.parametrize("rule", [rule for rule in RuleName if EFFECTS[rule] is Effect.LOSSLESS])
@given(body=bodies)
def test_lossless_rules_keep_everything(rule, body):
    assert as_bag(rewritten(body, rule).body) == as_bag(body)


@given(bodies)
def test_the_given_body_is_not_touched(body):
    before = json.dumps(body)
    rewritten(body, *RuleName)
    assert json.dumps(body) == before


@pytest.mark.parametrize(
    ("content", "left"),
    [
        (f"{BILLING}\nYou are X.\n{BILLING}", f"You are X.\n{BILLING}"),
        (f"{BILLING}\n\n{BILLING}\nYou are X.", "You are X."),
        (f"You are X.\n{BILLING}", f"You are X.\n{BILLING}"),
        ([{"type": "text", "text": BILLING}, {"type": "text", "text": "X"}], [{"type": "text", "text": "X"}]),
    ],
)
def test_drop_billing_header(content, left):
    assert rewritten(system(content), RuleName.DROP_BILLING_HEADER).body == system(left)


def test_a_system_message_of_nothing_else_goes():
    assert [m["role"] for m in rewritten(system(BILLING), RuleName.DROP_BILLING_HEADER).body["messages"]] == ["user"]


def test_the_header_in_a_later_message_is_the_users():
    body = {"messages": [{"role": "user", "content": BILLING}, {"role": "system", "content": BILLING}]}
    assert rewritten(body, RuleName.DROP_BILLING_HEADER).body is body


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Now: 2026-12-03T08:40:32Z.", "Now: 2026-12-03."),
        ("2026-12-03T08:40:32.123456+01:00", "2026-12-03"),
        ("2026-12-03 08:40 UTC", "2026-12-03"),
        ("2026-12-03T09:40:32+01:00[Europe/Berlin]", "2026-12-03"),
        ("12/3/2026, 8:40:32 AM", "12/3/2026"),
        ("3.12.2026 08:40", "3.12.2026"),
        ("Thu Dec  3 08:40:32 UTC 2026", "Thu Dec  3 2026"),
        ("Thu Dec 03 2026 08:40:32 GMT+0000 (Coordinated Universal Time)", "Thu Dec 03 2026"),
        ("Thursday, December 3, 2026 at 8:40 AM", "Thursday, December 3, 2026"),
        ("Thu, 03 Dec 2026 08:40:32 +0000", "Thu, 03 Dec 2026"),
        ("2026-12-03 08:40 EST and so on", "2026-12-03 and so on"),
        ("2026-12-03", "2026-12-03"),
        ("at 08:40:32 each day", "at 08:40:32 each day"),
        ("version 2026-12-03 is out, 8 of 10", "version 2026-12-03 is out, 8 of 10"),
        ("ratio 3:40, id 92026-12-03T", "ratio 3:40, id 92026-12-03T"),
    ],
)
def test_to_the_day(text, day):
    assert to_the_day(text) == day


def test_freeze_timestamps_reads_system_messages_and_descriptions_only():
    now, day = "It is 2026-12-03T08:40:32Z", "It is 2026-12-03"
    schema = {"properties": {"at": {"description": now, "default": now}}}
    body = {**system(now, {"role": "user", "content": now}), "tools": [tool("f", schema, now)]}
    answer = rewritten(body, RuleName.FREEZE_TIMESTAMPS)
    assert [m["content"] for m in answer.body["messages"]] == [day, now, "hi"]
    assert answer.body["tools"] == [tool("f", {"properties": {"at": {"description": day, "default": now}}}, day)]
    assert [(note.rule.value, note.changed) for note in answer.notes] == [("freeze_timestamps", 3 * len("T08:40:32Z"))]


def test_sort_tools_by_name():
    body = {"tools": [tool("b"), tool("a"), {"type": "function", "function": {"name": "a", "description": "c"}}]}
    names = [each["function"]["name"] for each in rewritten(body, RuleName.SORT_TOOLS).body["tools"]]
    assert names == ["a", "a", "b"]


@given(tools.flatmap(lambda given: st.tuples(st.just(given), st.permutations(given))))
def test_any_order_of_tools_becomes_the_same(orders):
    one, other = ({"tools": list(order)} for order in orders)
    assert json.dumps(rewritten(one, RuleName.SORT_TOOLS).body) == json.dumps(
        rewritten(other, RuleName.SORT_TOOLS).body
    )


def test_sort_schema_keys_leaves_lists_and_the_rest_of_the_tool():
    schema = {"type": "object", "required": ["z", "a"], "properties": {"z": {"type": "x", "enum": [2, 1]}, "a": {}}}
    answer = rewritten({"tools": [tool("f", schema)]}, RuleName.SORT_SCHEMA_KEYS)
    wanted = {"properties": {"a": {}, "z": {"enum": [2, 1], "type": "x"}}, "required": ["z", "a"], "type": "object"}
    assert json.dumps(answer.body["tools"][0]) == json.dumps(tool("f", wanted))


def test_the_order_of_configuration_does_not_count():
    body = {**system(f"{BILLING}\nX"), "tools": [tool("b", {"b": 1, "a": 2}), tool("a")]}
    rules = (RuleName.SORT_SCHEMA_KEYS, RuleName.SORT_TOOLS, RuleName.DROP_BILLING_HEADER)
    one, other = rewritten(body, *rules), rewritten(body, *reversed(rules))
    assert one == other
    assert [note.rule.value for note in one.notes] == ["drop_billing_header", "sort_tools", "sort_schema_keys"]


def test_every_change_is_logged(caplog):
    with caplog.at_level(logging.DEBUG, "sapwood.gateway"):
        rewritten(system(BILLING), *RuleName)
    assert caplog.messages == [f"rewrite rule drop_billing_header changed {len(BILLING)} bytes"]


def test_endless_nesting_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(GatewayError, match="nested too deeply"):
        rewritten({"tools": [{"name": "f", "parameters": {"x": deep}}]}, RuleName.SORT_SCHEMA_KEYS)
