"""Expected against reported cached tokens, and the cause of what is missing."""

from __future__ import annotations

import pytest

from gateway.observe.gap import GapCause, Home, find_gap

HOME = Home("http://a", "boot-1", 7)


def gap(before=HOME, now=HOME, expected=4000, cached=0, reports_hits=True):
    return find_gap(expected=expected, cached=cached, before=before, now=now, reports_hits=reports_hits)


@pytest.mark.parametrize(
    ("before", "now", "reports_hits", "cause"),
    [
        (HOME, Home("http://a", "boot-2", 7), True, GapCause.REPLICA_RESTARTED),
        (HOME, Home("http://b", "boot-1", 7), True, GapCause.NEVER_HELD),
        (HOME, Home("http://a", "boot-1", 8), True, GapCause.SCHEMA_KEY_ORDER),
        (HOME, HOME, True, GapCause.EVICTED),
        (HOME, HOME, False, GapCause.NO_CACHE),
        (None, HOME, True, GapCause.EVICTED),
    ],
)
def test_causes(before, now, reports_hits, cause):
    found = gap(before, now, reports_hits=reports_hits)
    assert (found.cause, found.tokens) == (cause, 4000)


@pytest.mark.parametrize(("expected", "cached"), [(4000, 4000), (4000, 5000), (4000, 3700), (120, 0), (0, 0)])
def test_pages_and_estimates_are_no_gap(expected, cached):
    assert gap(expected=expected, cached=cached) is None
