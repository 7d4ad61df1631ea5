"""The export to OpenAI's messages: what would be sent next, to the letter."""

from __future__ import annotations

import json

from openai.types.chat import completion_create_params
from pydantic import TypeAdapter

from agents.export.library import Library, final
from agents.export.messages import as_json, body

REQUEST = TypeAdapter(completion_create_params.CompletionCreateParamsNonStreaming)


def exported(begin, scribe):
    return json.loads(as_json(final(Library(begin.repo).read(scribe.id))))


def test_it_is_what_the_next_request_would_be(begin, solved):
    state = solved.session.state
    found = exported(begin, solved)
    assert found == {"model": "scripted", "messages": state.messages, "tools": state.tools}
    assert list(found) == ["model", "messages", "tools"]


def test_arguments_keep_the_models_own_spelling(begin, solved):
    calls = [call for message in exported(begin, solved)["messages"] for call in message.get("tool_calls", ())]
    assert calls[1]["function"]["arguments"].startswith('{"path" : "calc.py" ,')


def test_openais_own_types_take_it(begin, solved):
    found = exported(begin, solved)
    REQUEST.validate_python(found)
    assert {message["role"] for message in found["messages"]} == {"system", "user", "assistant", "tool"}


def test_any_text_survives(begin):
    scribe = begin("lone \ud800, nul \x00, line \u2028 and </script>")
    assert exported(begin, scribe)["messages"][1]["content"] == scribe.session.state.opened["task"]


def test_without_tools_there_are_none(begin):
    assert "tools" not in exported(begin, begin(tools=[]))


def test_a_branch_has_the_whole_conversation(begin, branched):
    second = branched.branches[1]
    assert body(final(Library(begin.repo).read(second.id)))["messages"] == second.session.state.messages
    assert second.session.state.messages[: len(branched.session.state.messages)] == branched.session.state.messages
