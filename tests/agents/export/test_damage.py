"""Session files with something else where a value was: read as they are, or refused."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agents.events import BadSession
from agents.export.library import Library
from agents.export.messages import as_json
from agents.export.page import render
from agents.export.show import listing, row, write
from agents.export.summary import summarise
from tests.examples import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def places(value, path=()):
    """Every place in a JSON value, as a path of keys."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, inner in items for place in places(inner, (*path, key))]


def put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def read_in_every_way(repo, name):
    library = Library(repo)
    told = summarise(library, name)
    Console(file=io.StringIO()).print(listing([row(library.read(name))]))
    write(told, Console(file=io.StringIO()))
    json.loads(as_json(told.state))
    render(told).encode()


def check_damage(begin, scribe, tmp_path):
    lines = [json.loads(line) for line in scribe.path.read_bytes().splitlines()]
    spots = [(number, path) for number, line in enumerate(lines) for path in places(line)]
    repo = tmp_path / "damaged"
    shutil.copytree(begin.repo, repo)

    @settings(max_examples=examples(160))
    @given(st.sampled_from(spots), JSON)
    def check(spot, new):
        number, path = spot
        changed = json.loads(json.dumps(lines))
        put(changed[number], path, new)
        file = repo / ".sapwood" / "sessions" / scribe.path.name
        file.write_text("".join(json.dumps(line) + "\n" for line in changed))
        with suppress(BadSession):
            read_in_every_way(repo, scribe.id)

    check()


def test_a_session(begin, solved, tmp_path):
    check_damage(begin, solved, tmp_path)


def test_a_branch(begin, branched, tmp_path):
    check_damage(begin, branched.branches[1], tmp_path)
