"""The ring of records, the header line, and what a person reads."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.canonical.explain import PrefixBreak, Turn
from gateway.canonical.explain_classes import BreakClass
from gateway.canonical.explain_locate import Part
from gateway.canonical.explain_text import Excerpt
from gateway.observe.advice import ADVICE, CAUSES
from gateway.observe.cache_header import MAX_BYTES, cache_line
from gateway.observe.describe import describe, flat, stream_fields
from gateway.observe.gap import Gap, GapCause
from gateway.observe.records import Outcome, Placed, Records, RequestRecord
from gateway.observe.why import render
from gateway.rewrite.base import RuleName
from tests.examples import examples

EXCERPT = Excerpt("Now: 2026-12-0", "1\nGo\x1b[31m", "2\nGo")
BREAK = PrefixBreak(BreakClass.TIMESTAMP, Part.MESSAGE, 0, "system", "messages[0].content", 220, 0.9, EXCERPT)
PLACED = Placed("http://10.0.0.1:9000", "binding", 900, 2000.0, attempts=2)
OUTCOME = Outcome(200, 812.5, None, 420.25, 11.0, "stop", 1000, 100, 40)


def record(number=1, tenant="t", lineage="l", **fields):
    return RequestRecord(f"req_{number}", 1764566776.5, "/v1/messages", tenant, None, lineage, "m", 990, **fields)


FULL = record(
    turn=Turn.BROKEN,
    broken=BREAK,
    lost_tokens=860,
    placed=PLACED,
    gap=Gap(GapCause.EVICTED, 800),
    outcome=OUTCOME,
)


def test_the_ring_keeps_the_newest_and_tenants_apart():
    records = Records(capacity=4)
    for number in range(6):
        records.add(record(number, "ab"[number % 2], lineage=f"l{number // 4}"))
    assert len(records) == 4
    assert records.get("a", "req_0") is None
    assert records.get("a", "req_4").id == "req_4"
    assert records.get("b", "req_4") is None
    assert [each.id for each in records.newest("b", 9)] == ["req_5", "req_3"]
    assert [each.id for each in records.newest("b", 1)] == ["req_5"]
    assert records.newest("b", 9, broken=True) == []
    assert [[each.id for each in group] for group in records.lineages("a", 9)] == [["req_4"], ["req_2"]]
    assert records.lineage("a", "l0")[0].id == "req_2"
    assert records.lineage("c", "l0") == []


def test_the_header_of_a_break():
    assert cache_line(FULL) == (
        b"break; class=timestamp; at=messages[0].content+220; lost=860; predicted=900; prompt=990; turn=broken; "
        b"replica=http://10.0.0.1:9000"
    )


def test_the_header_of_a_hit_and_of_a_miss():
    hit = record(turn=Turn.EXTENDED, placed=PLACED)
    assert cache_line(hit).startswith(b"hit; predicted=900; prompt=990; turn=extended")
    miss = record(turn=Turn.FIRST, placed=Placed("http://a", "seconds", 0, 1.0))
    assert cache_line(miss).startswith(b"miss; predicted=0")


@given(st.text(max_size=400))
@settings(max_examples=examples(200))
def test_a_header_line_is_short_and_plain(replica):
    line = cache_line(record(turn=Turn.FIRST, placed=Placed(replica, "seconds", 0, 1.0)))
    assert len(line) <= MAX_BYTES
    assert re.fullmatch(rb"[!-~ ]+", line)


def test_flat_fields_hold_no_contents():
    for told in (flat(FULL), stream_fields(FULL)):
        assert told["break"] == "timestamp"
        assert told["break_at"] == "messages[0].content+220"
        assert "Go" not in str(told)
    assert set(map(type, stream_fields(FULL).values())) == {str}
    assert flat(record())["replica"] is None


def test_what_a_person_reads():
    text = render(describe(FULL))
    assert "BREAK     timestamp: messages[0].content (system), byte 220" in text
    assert "lost      about 860 tokens, about 430 ms" in text
    assert "100 of 1,000 tokens (10%)" in text
    assert "after 1 failed" in text
    assert ADVICE[BreakClass.TIMESTAMP] in text
    assert CAUSES[GapCause.EVICTED] in text
    before, now, mark = (line for line in text.splitlines() if re.match(r"(before|now) |  +\^", line))
    assert before[len(mark) - 1] == "1"
    assert now[len(mark) - 1] == "2"
    assert "\x1b" not in text


@pytest.mark.parametrize("turn", [None, *Turn])
@pytest.mark.parametrize("placed", [None, PLACED])
@pytest.mark.parametrize("outcome", [None, OUTCOME, Outcome(499, 3.0, "client_gone")])
def test_any_state_of_a_record_reads(turn, placed, outcome):
    text = render(describe(record(turn=turn, placed=placed, outcome=outcome)))
    assert "None" not in text
    assert text.startswith("request   req_1")


def test_there_is_advice_for_everything():
    assert ADVICE.keys() == set(BreakClass)
    assert CAUSES.keys() == set(GapCause)
    rules = {rule for line in (*ADVICE.values(), *CAUSES.values()) for rule in re.findall(r"the rule (\w+)", line)}
    assert rules == set(RuleName)
