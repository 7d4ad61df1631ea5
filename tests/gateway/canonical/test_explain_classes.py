"""Each class of prefix break, by the smallest pair of requests that shows it."""

from __future__ import annotations

import pytest

from gateway.canonical.chain import digest_chain
from gateway.canonical.explain import Turn, compare
from gateway.canonical.explain_classes import BreakClass
from gateway.dialects.chat import Chat

LONG = "You are a careful engineer who reads before writing. " * 4


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **fields):
    return {"role": "assistant", "content": text, **fields}


def call(arguments):
    function = {"name": "read", "arguments": arguments}
    return assistant(None, tool_calls=[{"id": "1", "type": "function", "function": function}])


def result(text):
    return {"role": "tool", "tool_call_id": "1", "content": text}


def tool(name, description="Reads."):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {}}}


def turn(*messages, tools=(), model="m", **fields):
    return {"model": model, "tools": list(tools), "messages": list(messages), **fields}


def chat(*messages, **fields):
    return turn(system(LONG), user("Fix the test."), *messages, **fields)


TALK = [user("q1"), assistant("a1"), user("q2"), assistant("a2"), user("q3"), assistant("a3"), user("q4")]
REMINDER = "<system-reminder>Keep the list of tasks up to date.</system-reminder>"

PAIRS = {
    BreakClass.MODEL_CHANGED: (chat(), chat(model="n"), "model"),
    BreakClass.OPTIONS_CHANGED: (
        chat(chat_template_kwargs={"enable_thinking": True}),
        chat(chat_template_kwargs={"enable_thinking": False}),
        "chat_template_kwargs.enable_thinking",
    ),
    BreakClass.TOOLS_REORDERED: (
        chat(tools=[tool("a"), tool("b")]),
        chat(tools=[tool("b"), tool("a")]),
        "tools[0]",
    ),
    BreakClass.TOOLS_ADDED: (chat(tools=[tool("a")]), chat(tools=[tool("a"), tool("b")]), "tools[1]"),
    BreakClass.TOOLS_REMOVED: (chat(tools=[tool("a"), tool("b")]), chat(tools=[tool("b")]), "tools[0]"),
    BreakClass.TOOLS_CHANGED: (
        chat(tools=[tool("a", "Reads a file.")]),
        chat(tools=[tool("a", "Reads a folder.")]),
        "tools[0].function.description",
    ),
    BreakClass.BILLING_HEADER: (
        turn(system(f"x-anthropic-billing-header: cch=aa;\n{LONG}"), user("q")),
        turn(system(f"x-anthropic-billing-header: cch=bb;\n{LONG}"), user("q")),
        "messages[0].content",
    ),
    BreakClass.TIMESTAMP: (
        turn(system(f"{LONG} Now: 2026-12-01T05:26:16Z."), user("q")),
        turn(system(f"{LONG} Now: 2026-12-01T05:26:49Z."), user("q")),
        "messages[0].content",
    ),
    BreakClass.VOLATILE_LINE: (
        turn(system(f"<total_tokens>90210 left</total_tokens>\n{LONG}"), user("q")),
        turn(system(f"<total_tokens>85123 left</total_tokens>\n{LONG}"), user("q")),
        "messages[0].content",
    ),
    BreakClass.WHITESPACE: (
        chat(assistant("done\n"), user("next")),
        chat(assistant("done"), user("next"), assistant("a"), user("b")),
        "messages[2].content",
    ),
    BreakClass.SYSTEM_CHANGED: (
        turn(system(f"{LONG} Be brief."), user("q")),
        turn(system(f"{LONG} Explain all."), user("q")),
        "messages[0].content",
    ),
    BreakClass.REASONING_STRIPPED: (
        chat(assistant("a", reasoning_content="I think"), user("next")),
        chat(assistant("a"), user("next"), assistant("b"), user("more")),
        "messages[2].reasoning_content",
    ),
    BreakClass.REASONING_CHANGED: (
        chat(assistant("a", reasoning_content="I think"), user("next")),
        chat(assistant("a", reasoning_content="We think"), user("next"), assistant("b"), user("more")),
        "messages[2].reasoning_content",
    ),
    BreakClass.ARGUMENTS_REWRITTEN: (
        chat(call('{"path": "a.py"}'), result("x"), user("next")),
        chat(call('{"path": "./a.py"}'), result("x"), user("next"), assistant("b"), user("more")),
        "messages[2].tool_calls[0].function.arguments",
    ),
    BreakClass.TOOL_RESULT_CHANGED: (
        chat(call("{}"), result("line\n" * 40), assistant("a"), user("next")),
        chat(call("{}"), result("[cut]"), assistant("a"), user("next"), assistant("b"), user("more")),
        "messages[3].content",
    ),
    BreakClass.REMINDER_MOVED: (
        chat(user(f"go on\n{REMINDER}")),
        chat(user("go on"), assistant("a"), user(f"and on\n{REMINDER}")),
        "messages[2].content",
    ),
    BreakClass.HISTORY_TRUNCATED: (
        turn(system(LONG), *TALK),
        turn(system(LONG), *TALK[2:], assistant("a4"), user("q5")),
        "messages[1].content",
    ),
    BreakClass.HISTORY_COMPACTED: (
        turn(system(LONG), *TALK),
        turn(system(LONG), user("Summary of the conversation so far: q1 to q3."), *TALK[-1:]),
        "messages[1].content",
    ),
    BreakClass.HISTORY_EDITED: (
        turn(system(LONG), *TALK),
        turn(system(LONG), *TALK[:1], assistant("another a1"), *TALK[2:], assistant("a4"), user("q5")),
        "messages[2].content",
    ),
}


def compared(old, new):
    return compare(*(digest_chain("t", Chat().parse(body)) for body in (old, new)))


def test_every_class_has_its_pair():
    assert PAIRS.keys() == set(BreakClass)


@pytest.mark.parametrize("kind", BreakClass)
def test_the_class(kind):
    old, new, path = PAIRS[kind]
    found = compared(old, new)
    assert found.turn is Turn.BROKEN
    assert (found.broken.kind, found.broken.path) == (kind, path)
    assert 0 < found.broken.lost_share <= 1


def test_thoughts_in_tags():
    old = chat(assistant("<think>I think</think>\n\na"), user("next"))
    new = chat(assistant("a"), user("next"), assistant("b"), user("more"))
    assert compared(old, new).broken.kind is BreakClass.REASONING_STRIPPED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Today is Mon Dec 1, 2026", "Today is Tue Dec 2, 2026"),
        ("at 5:26 PM", "at 5:27 PM"),
        ("1 Dec 2026", "2 Dec 2026"),
        ("t=1764566776", "t=1764566999"),
    ],
)
def test_spellings_of_a_time(old, new):
    found = compared(turn(system(LONG + old), user("q")), turn(system(LONG + new), user("q")))
    assert found.broken.kind is BreakClass.TIMESTAMP
