"""The HTML page: what it tells, and that nothing that a model or tool says becomes a part of it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.events import Kind
from agents.export.diffs import Change, lines_of
from agents.export.library import Library
from agents.export.page import render
from agents.export.prose import Piece, pieces
from agents.export.summary import summarise
from agents.export.units import count, percent, seconds
from tests.examples import examples

VOID = {"meta", "rect"}


class Dom(HTMLParser):
    """Tags with attributes, the text of each element, and whether everything closes."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.texts, self.style = [], [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            self.style += data
        else:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    def with_class(self, name):
        return [attrs for _, attrs in self.tags if name in (attrs.get("class") or "").split()]


def page_of(begin, scribe):
    return render(summarise(Library(begin.repo), scribe.id))


def dom_of(begin, scribe):
    return Dom(page_of(begin, scribe))


def test_it_tells_the_session(begin, solved):
    dom = dom_of(begin, solved)
    for words in ("Repair add.", "the tests pass", "scripted", "run_tests", "1 failed, 1 passed", "It subtracts."):
        assert words in dom.text
    assert "500 prompt 297 from the cache 59 % 203 computed 53 generated 3 turns" in dom.text
    assert "160 prompt, 108 cached, 52 computed · TTFT 31 ms" in dom.text


def test_bars_are_to_the_scale_of_the_longest_prompt(begin, solved):
    dom = dom_of(begin, solved)
    second = [rect for rect in dom.all("rect") if rect.get("x") == "45.0%"]
    assert {rect["width"] for rect in second} == {"21.67%"}


def test_a_server_that_reports_no_cache_gets_no_bar_and_no_guess(begin):
    scribe = begin()
    scribe.turn("hello", cost=(100, None, 3))
    dom = dom_of(begin, scribe)
    assert dom.with_class("bar") == []
    assert "100 prompt – from the cache – – computed" in dom.text


def test_changes_are_coloured_and_keep_their_signs(begin, solved):
    dom = dom_of(begin, solved)
    assert len(dom.with_class("added")) == len(dom.with_class("removed")) == 1
    assert "- return a - b" in dom.text
    assert "+ return a + b" in dom.text


def test_calls_are_folded_but_those_that_change_something(begin, solved):
    calls = dom_of(begin, solved).with_class("call")
    assert ["open" in call for call in calls] == [False, True, False]


def test_verdicts(begin, solved):
    dom = dom_of(begin, solved)
    assert "tests failed" in dom.text
    assert "The agent runs the tests passed" in dom.text


def test_branches_with_their_turns_and_tokens(begin, branched):
    dom = dom_of(begin, branched)
    assert "b1 cancelled 1 150 140 140 10 20" in dom.text
    assert "b2 solved 2 380 315 140 65 28" in dom.text
    assert "630 prompt 455 from the cache 72 % 175 computed" in dom.text
    targets = {attrs["id"] for _, attrs in dom.tags if "id" in attrs}
    assert {link["href"].removeprefix("#") for link in dom.all("a")} <= targets
    assert {"main-1", "b1-2", "b2-2", "b2-3"} <= targets


def test_ids_are_unique(begin, branched):
    ids = [attrs["id"] for _, attrs in dom_of(begin, branched).tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_page_of_a_branch_has_the_turns_before_it(begin, branched):
    dom = dom_of(begin, branched.branches[1])
    assert f"branch of {branched.id}, event 5" in dom.text
    assert "1 failed, 1 passed" in dom.text
    assert "no such text" not in dom.text


def test_a_branch_that_cannot_be_read_is_named(begin, branched):
    branched.branches[0].path.write_bytes(b"")
    dom = dom_of(begin, branched)
    assert "A branch is missing here" in dom.text
    assert "b2 solved" in dom.text


def test_everything_that_can_happen_has_its_place(begin):
    scribe = begin("a\nlong\n" * 20)
    scribe.say("You again?", "person")
    scribe.say("In circles.", "nudge")
    scribe.say("The server is back.", "news")
    [cut] = scribe.turn("x", [("edit_file", '{"path": ')], finish="length")
    scribe.result(cut, "Not run", is_error=True)
    [_] = scribe.turn("", [("run_tests", "")])
    scribe.session.append(Kind.FAIL, error="Dropped", text="the stream broke off", partial="")
    scribe.session.append(Kind.MODEL, model="another")
    cost = {"prompt": 90, "cached": 80, "completion": 5, "ttft": 0.01, "seconds": 0.1}
    said = [{"role": "assistant", "content": "So far: nothing."}, {"role": "user", "content": "Go on."}]
    scribe.session.append(Kind.COMPACT, messages=said, cost=cost)
    scribe.rest("interrupted", "--resume goes on")
    scribe.session.append(Kind.RESUME)
    text = dom_of(begin, scribe).text
    for words in (
        "You You again?",
        "Agent, to break a circle In circles.",
        "Agent, with news The server is back.",
        "cut off by the length limit",
        "Arguments that are no JSON object",
        "error",
        "no result",
        "did not arrive the stream broke off",
        "From here on the model is another",
        "replaced by a summary So far: nothing.",
        "interrupted --resume goes on",
        "Resumed",
        "unfinished",
    ):
        assert words in text


HOSTILE = (
    '</pre></details><script>alert(1)</script><img src=x onerror=alert(1)> " onload="x\' <style>*{display:none}</style>'
    " {{ 7 * 7 }} {% raw %} ]]> <!-- &lt;b&gt; \x1b[31m\x07 \u202e\u2066 \ud800 </style></title></textarea>"
)


def hostile(begin, text):
    """A session that says `text` wherever somebody else's words may stand."""
    opened = {
        "model": text,
        "profile": text,
        "messages": [{"role": role, "content": text} for role in ("system", text)],
    }
    tool = {"type": "function", "function": {"name": text, "description": text, "parameters": {}}}
    scribe = begin(text, tools=[tool, text], **opened)
    [first, second] = scribe.turn(text, [(text, text), ("t", f'{{"{"a" * 3}": [1, {{}}]}}')], reasoning=text)
    scribe.session.append(Kind.APPROVE, call=first, answer=text)
    scribe.result(first, text, {"outcome": text}, is_error=True)
    scribe.result(second, f"--- {text}\n+++ {text}\n@@ {text}\n+{text}\n-{text}")
    scribe.say(text, text)
    scribe.say([{"type": "text", "text": text}, {"type": text}, text])
    scribe.verify(text, text)
    scribe.session.append(Kind.FAIL, error=text, text=text, partial=text)
    scribe.session.append(Kind.MODEL, model=text)
    scribe.rest("solved", text)
    return scribe


def check_harmless(page, plain):
    dom = Dom(page)
    assert [tag for tag, _ in dom.tags] == [tag for tag, _ in plain.tags]
    names = [sorted(attrs) for _, attrs in dom.tags]
    assert names == [sorted(attrs) for _, attrs in plain.tags]
    page.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


def test_hostile_words_stay_words(begin):
    plain = dom_of(begin, hostile(begin, "x"))
    scribe = hostile(begin, HOSTILE)
    page = page_of(begin, scribe)
    check_harmless(page, plain)
    assert "<script" not in page
    assert "{{ 7 * 7 }}" in page


def test_no_words_can_add_an_element(begin):
    plain = dom_of(begin, hostile(begin, "x"))

    @settings(max_examples=examples(100))
    @given(st.text(max_size=40).filter(lambda text: not re.search("[`~\n]", text)))
    def check(text):
        check_harmless(page_of(begin, hostile(begin, f"x{text}")), plain)

    check()


def test_nothing_is_loaded_and_the_policy_says_so(begin, branched):
    dom = dom_of(begin, branched)
    policy = next(meta["content"] for meta in dom.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(dom.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    names = {name for _, attrs in dom.tags for name in attrs}
    assert names.isdisjoint({"src", "style", "srcset", "data", "action", "background"})
    assert not any(name.startswith("on") for name in names)
    assert all(link["href"].startswith("#") for link in dom.all("a"))
    assert not re.search(r"url\(|@import", dom.style)


def test_tables_and_pictures_have_names(begin, branched):
    dom = dom_of(begin, branched)
    assert len(dom.all("caption")) == len(dom.all("table"))
    assert all("scope" in cell for cell in dom.all("th"))
    assert all("aria-hidden" in picture or "aria-label" in picture for picture in dom.all("svg"))
    assert [attrs.get("lang") for attrs in dom.all("html")] == ["en"]
    assert len(dom.all("h1")) == 1


def _luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


PAIRS = (
    *(("ink", under) for under in ("paper", "raised", "sunken")),
    *(("soft", under) for under in ("paper", "raised", "sunken", "quiet-paper")),
    *(("accent", "paper"), ("good", "good-paper"), ("bad", "bad-paper"), ("place", "sunken")),
    *(("added-ink", "added"), ("removed-ink", "removed")),
)


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_text_can_be_read(place):
    style = files("agents.export").joinpath("templates/style.css").read_text()
    block = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[place]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
    for over, under in PAIRS:
        lighter, darker = sorted((_luminance(colours[over]), _luminance(colours[under])), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (over, under)


def test_diffs():
    changes = [line.change for line in lines_of("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n c")]
    expected = [Change.FILE] * 3 + [Change.PLACE, Change.REMOVED, Change.ADDED, Change.SAME]
    assert changes == expected
    assert lines_of("- a list\n+ of points\n--- and a line") == []


def test_prose_and_code():
    assert pieces("a\n```py\nb\n\nc\n```\nd") == [Piece("a"), Piece("b\n\nc", True, "py"), Piece("d")]
    assert pieces("```\nnever closed") == [Piece("never closed", True)]
    assert pieces(" \n") == []


def test_units():
    assert [count(1234567), count(None)] == ["1,234,567", "–"]
    assert [percent(0.984), percent(None)] == ["98 %", "–"]
    times = [seconds(value) for value in (0.031, 1.42, 75, 3720, None)]
    assert times == ["31 ms", "1.4 s", "1 min 15 s", "1 h 2 min", "–"]
