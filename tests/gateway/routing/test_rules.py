"""Rules as pure functions: which pools take a request, in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.errors import GatewayError
from gateway.placement.queue import Priority
from gateway.routing.facts import Facts
from gateway.routing.rules import Route, Router, Rule

POOLS = {"agents": 1.0, "bulk": 1.0, "spare": 1.0}


def router(*rules, weights=POOLS, labels=None):
    return Router([Rule.model_validate(rule) for rule in rules], "agents", weights, labels or {})


FITS = [
    ({"model": "qwen*"}, Facts("qwen3-8b"), True),
    ({"model": "qwen*"}, Facts("llama"), False),
    ({"model": "Qwen*"}, Facts("qwen3-8b"), False),
    ({"adapter": "*"}, Facts("base:sql"), True),
    ({"adapter": "*"}, Facts("base"), False),
    ({"adapter": "sq?"}, Facts("base:sql"), True),
    ({"key": "ci"}, Facts("m", key="ci"), True),
    ({"key": "ci"}, Facts("m"), False),
    ({"tenant": "red"}, Facts("m", tenant="red"), True),
    ({"tenant": "red"}, Facts("m", tenant="blue"), False),
    ({"headers": {"X-Team": "red"}}, Facts("m", headers={"x-team": "red"}), True),
    ({"headers": {"X-Team": "red"}}, Facts("m", headers={"x-team": "blue"}), False),
    ({"shape": "single_turn"}, Facts("m", turns=1), True),
    ({"shape": "single_turn"}, Facts("m", turns=2), False),
    ({"shape": "single_turn", "tools": False}, Facts("m", turns=1, has_tools=True), False),
    ({"shape": "long", "min_tokens": 1000}, Facts("m", tokens=1000), True),
    ({"shape": "long", "min_tokens": 1000}, Facts("m", tokens=999), False),
    ({"shape": "batch"}, Facts("m", headers={"x-sapwood-priority": "batch"}), True),
    ({"shape": "batch"}, Facts("m"), False),
    ({"tools": True, "model": "m"}, Facts("m", has_tools=True), True),
    ({"tools": True, "model": "n"}, Facts("m", has_tools=True), False),
    ({}, Facts("anything"), True),
]


@pytest.mark.parametrize(("rule", "facts", "fits"), FITS)
def test_whatever_is_given_must_hold(rule, facts, fits):
    assert router({"pools": "bulk", **rule}).route(facts).pools == (("bulk",) if fits else ("agents",))


def test_the_first_rule_that_fits_decides():
    routed = router({"pools": "bulk", "model": "a*"}, {"pools": "spare", "model": "*"})
    assert routed.route(Facts("ab")).pools == ("bulk",)
    assert routed.route(Facts("b")).pools == ("spare",)


def test_pools_by_label():
    labels = {"agents": {"gpu": "h100"}, "bulk": {"gpu": "l4", "zone": "b"}, "spare": {"gpu": "l4", "zone": "c"}}
    routed = router({"labels": {"gpu": "l4"}, "model": "m"}, {"labels": {"gpu": "l4", "zone": "c"}}, labels=labels)
    assert set(routed.route(Facts("m")).pools) == {"bulk", "spare"}
    assert routed.route(Facts("n")).pools == ("spare",)


def test_priority_of_the_client_then_of_the_rule():
    routed = router({"pools": "bulk", "priority": "batch", "model": "m"})
    assert routed.route(Facts("m")) == Route(("bulk",), Priority.BATCH)
    assert routed.route(Facts("m", headers={"x-sapwood-priority": " Interactive"})).priority is Priority.INTERACTIVE
    assert routed.route(Facts("n")).priority is Priority.INTERACTIVE
    assert routed.route(Facts("n", headers={"x-sapwood-priority": "batch"})).priority is Priority.BATCH


def test_weights_share_conversations():
    routed = router({"pools": {"agents": 3, "bulk": 1}})
    first = [routed.route(Facts("m", sticky=str(n))).pools[0] for n in range(2000)]
    assert 0.72 < first.count("agents") / 2000 < 0.78


def test_the_pools_own_weights_where_the_rule_has_none():
    routed = router({"pools": ["agents", "bulk"]}, weights={"agents": 1.0, "bulk": 0.0})
    assert all(routed.route(Facts("m", sticky=str(n))).pools == ("agents", "bulk") for n in range(100))


@given(st.text(), st.permutations(["agents", "bulk", "spare"]))
def test_a_conversation_falls_the_same_way_however_the_rule_is_written(sticky, names):
    facts = Facts("m", sticky=sticky)
    route = router({"pools": names}).route(facts)
    assert route == router({"pools": sorted(names)}).route(facts)
    assert sorted(route.pools) == sorted(names)


@given(st.text(), st.floats(0, 5))
def test_more_weight_moves_conversations_only_towards_the_pool(sticky, more):
    before = router({"pools": {"agents": 1, "bulk": 1, "spare": 1}}).route(Facts("m", sticky=sticky)).pools[0]
    after = router({"pools": {"agents": 1 + more, "bulk": 1, "spare": 1}}).route(Facts("m", sticky=sticky)).pools[0]
    assert after in (before, "agents")


SECONDS = "seconds above 0 and up to 3600"


@pytest.mark.parametrize(
    ("header", "told", "takes"),
    [
        ("x-sapwood-priority", "urgent", "interactive or batch"),
        ("x-sapwood-deadline", "soon", SECONDS),
        ("x-sapwood-deadline", "nan", SECONDS),
        ("x-sapwood-deadline", "0", SECONDS),
        ("x-sapwood-deadline", "1e9", SECONDS),
    ],
)
def test_words_of_the_client_that_are_none(header, told, takes):
    facts = Facts("m", headers={header: told})
    with pytest.raises(GatewayError) as refused:
        _ = (facts.priority, facts.deadline_s)
    error = refused.value
    assert (error.status, error.code, error.param) == (400, "invalid_header", header)
    assert error.message == f"The header {header} is {told!r}; it takes {takes}."


@pytest.mark.parametrize("rule", [{}, {"pools": []}, {"pools": "a", "labels": {"b": "c"}}, {"pools": {"a": -1}}])
def test_rules_that_are_none(rule):
    with pytest.raises(ValidationError):
        Rule.model_validate(rule)
