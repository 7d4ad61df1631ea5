from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.servers.names import Names
from tests.examples import examples

# Few letters, so that many pairs look alike.
TEXT = st.text("ab_./é\ud800", max_size=6) | st.text("a", min_size=60, max_size=70)


def test_plain_names():
    names = Names()
    assert names.of("git", "git_status") == "git__git_status"
    assert names.of("my files", "read.file") == "my_files__read_file"
    assert names.owner("git__git_status") == ("git", "git_status")
    assert names.owner("git__other") is None


def test_alike_and_too_long():
    names = Names()
    first, second = names.of("a b", "c"), names.of("a_b", "c")
    assert first == "a_b__c"
    assert re.fullmatch(r"a_b__c_[0-9a-f]{8}", second)
    long = [names.of("server", "t" * 60 + end) for end in "xy"]
    assert all(len(name) == 64 for name in long)
    assert long[0] != long[1]


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(TEXT, TEXT), max_size=30))
def test_a_name_belongs_to_one_tool_and_stays(pairs):
    names = Names()
    given_names = {pair: names.of(*pair) for pair in pairs}
    assert len(set(given_names.values())) == len(given_names)
    for pair, name in given_names.items():
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
        assert names.owner(name) == pair
        assert names.of(*pair) == name
