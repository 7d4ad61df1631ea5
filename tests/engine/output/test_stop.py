"""Stop strings: the same text for every cut, and nothing held back that can't become a stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.output.stop import StopMatcher


def run(stops, pieces):
    matcher = StopMatcher(stops)
    out = ""
    for piece in pieces:
        emitted, stopped = matcher.push(piece)
        out += emitted
        if stopped:
            return out, matcher.matched
    return out + matcher.flush(), None


def reference(stops, text):
    """The first place where a stop has just ended, character by character."""
    for end in range(len(text) + 1):
        ended = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if ended:
            longest = max(ended, key=len)
            return text[: end - len(longest)], longest
    return text, None


def cuts(draw, text):
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def cases(draw):
    alphabet = st.sampled_from("ab<")
    stops = draw(st.lists(st.text(alphabet, min_size=1, max_size=4), min_size=1, max_size=3))
    text = draw(st.text(alphabet, max_size=20))
    return stops, text, cuts(draw, text)


@given(case=cases())
def test_every_cut_gives_the_same_text(case):
    stops, text, pieces = case
    assert run(stops, pieces) == reference(stops, text)


@given(case=cases())
def test_only_the_beginning_of_a_stop_is_held_back(case):
    stops, _, pieces = case
    matcher, out, pushed = StopMatcher(stops), "", ""
    for piece in pieces:
        emitted, stopped = matcher.push(piece)
        if stopped:
            return
        out, pushed = out + emitted, pushed + piece
        held = pushed[len(out) :]
        assert pushed == out + held
        assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)


def test_a_stop_over_token_borders():
    matcher = StopMatcher(["END", "</s>x"])
    pieces = [matcher.push(piece) for piece in ("a E", "N", "OK E", "ND tail")]
    assert pieces == [("a ", False), ("", False), ("ENOK ", False), ("", True)]
    assert matcher.matched == "END"
    assert matcher.push("more") == ("", True)
    assert matcher.flush() == ""


@pytest.mark.parametrize("stops", [[], [""]])
def test_without_stops_everything_passes_at_once(stops):
    matcher = StopMatcher(stops)
    assert matcher.push("abc") == ("abc", False)
    assert matcher.flush() == ""
