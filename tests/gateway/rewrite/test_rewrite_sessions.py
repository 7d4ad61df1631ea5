"""The rules that remember a session: what a turn becomes depends on the turns before it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.rewrite.base import RuleName
from gateway.rewrite.memory import Memory
from gateway.rewrite.reasoning import Thought
from gateway.rewrite.rewriter import Rewriter, Session
from gateway.rewrite.volatile import LABEL

SESSION = Session("tenant", "s1")
CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
PROMPT = "You are X.\nUse the tools.\nBe brief.\nNever guess."


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **fields):
    return {"role": "assistant", "content": text, **fields}


def tool(name, description="d", **properties):
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def turn(number, system=PROMPT, **fields):
    """The `number`-th request of a conversation, from 0."""
    said = [message for n in range(number) for message in (user(f"q{n}"), assistant(f"a{n}"))]
    return {"model": "m", "messages": [{"role": "system", "content": system}, *said, user(f"q{number}")], **fields}


def contents(body):
    return [message["content"] for message in body["messages"]]


class TestVolatileLines:
    RULES = (RuleName.MOVE_VOLATILE_LINES,)

    def turns(self, rewriter, *systems, session=SESSION):
        return [rewriter.rewrite(turn(n, s), self.RULES, session).body for n, s in enumerate(systems)]

    def test_a_changing_line_goes_to_the_end_and_stays_there(self):
        first, second, third = self.turns(Rewriter(), *(f"You are X.\nnow: {n}\nBe brief, please." for n in range(3)))
        assert contents(first)[0] == "You are X.\nnow: 0\nBe brief, please."
        stable = "You are X.\nBe brief, please."
        assert contents(second) == [stable, "q0", "a0", f"q1\n\n{LABEL}\nnow: 1"]
        assert contents(third) == [stable, "q0", "a0", f"q1\n\n{LABEL}\nnow: 1", "a1", f"q2\n\n{LABEL}\nnow: 2"]

    def test_the_same_line_is_said_once(self):
        bodies = self.turns(Rewriter(), *(f"{PROMPT}\nbranch: {name}" for name in ("main", "fix", "fix", "main")))
        assert contents(bodies[-1])[3::2] == [f"q1\n\n{LABEL}\nbranch: fix", "q2", f"q3\n\n{LABEL}\nbranch: main"]

    def test_nothing_moves_while_nothing_changes(self):
        assert self.turns(Rewriter(), PROMPT, PROMPT) == [turn(0), turn(1)]

    def test_another_prompt_is_no_volatile_line(self):
        other = "Give this chat a title.\nFive words.\nNo quotes.\nNo more."
        assert self.turns(Rewriter(), PROMPT, other)[1] == turn(1, other)

    def test_sessions_tenants_and_first_messages_are_apart(self):
        rewriter = Rewriter()
        self.turns(rewriter, f"{PROMPT}\n1")
        later = turn(1, f"{PROMPT}\n2")
        for session in (Session("tenant", "s2"), Session("other", "s1"), Session("tenant", None)):
            assert rewriter.rewrite(later, self.RULES, session).body == later
        renamed = {**later, "messages": [later["messages"][0], user("else"), *later["messages"][2:]]}
        assert rewriter.rewrite(renamed, self.RULES, SESSION).body == renamed
        assert rewriter.rewrite(later, self.RULES, SESSION).body != later

    def test_after_a_tool_result_and_in_parts(self):
        rewriter = Rewriter()
        self.turns(rewriter, f"{PROMPT}\n1")
        result = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "ok"}]}
        body = {**turn(0, f"{PROMPT}\n2")}
        body["messages"] = [*body["messages"], assistant(None, tool_calls=[]), result]
        moved = rewriter.rewrite(body, self.RULES, SESSION).body["messages"]
        assert moved[-1]["content"] == [*result["content"], {"type": "text", "text": f"{LABEL}\n2"}]

    def test_where_the_answer_has_begun_there_is_no_place(self):
        rewriter = Rewriter()
        self.turns(rewriter, f"{PROMPT}\n1")
        body = turn(0, f"{PROMPT}\n2")
        body["messages"].append(assistant("The answer"))
        assert rewriter.rewrite(body, self.RULES, SESSION).body == body

    @given(
        st.lists(
            st.lists(st.sampled_from(["date 1", "date 2", "on main", "dirty", "x"]), max_size=3),
            min_size=1,
            max_size=6,
        )
    )
    def test_no_line_is_lost_and_a_second_time_changes_nothing(self, volatile):
        rewriter = Rewriter()
        previous = []
        for number, lines in enumerate(volatile):
            system = "\n".join([PROMPT, *lines, "The end."])
            body = rewriter.rewrite(turn(number, system), self.RULES, SESSION).body
            said = "\n".join(contents(body)).split("\n")
            assert set(system.split("\n")) <= set(said)
            assert rewriter.rewrite(body, self.RULES, SESSION).body == body
            if contents(body)[0] == (previous[0] if previous else None):
                assert contents(body)[: len(previous)] == previous
            previous = contents(body)


class TestFrozenTools:
    RULES = (RuleName.FREEZE_TOOLS,)

    def names(self, *lists):
        rewriter = Rewriter()
        for number, tools in enumerate(lists):
            body = rewriter.rewrite(turn(number, tools=tools), self.RULES, SESSION).body
        return [each["function"]["name"] for each in body["tools"]]

    def test_added_ones_are_appended_and_stay_there(self):
        a, b, c, d = map(tool, "abcd")
        assert self.names([b, d], [a, b, d]) == ["b", "d", "a"]
        assert self.names([b, d], [a, b, d], [a, b, c, d]) == ["b", "d", "a", "c"]

    def test_removed_ones_are_kept_and_order_does_not_count(self):
        a, b = map(tool, "ab")
        assert self.names([a, b], [b]) == ["a", "b"]
        assert self.names([a, b], [b, a]) == ["a", "b"]

    def test_of_a_description_the_first_stays_but_a_schema_counts(self):
        rewriter = Rewriter()
        rewriter.rewrite(turn(0, tools=[tool("f", "at 10:00"), tool("g")]), self.RULES, SESSION)
        changed = tool("g", "d", path={"type": "string"})
        body = rewriter.rewrite(turn(1, tools=[tool("f", "at 10:01"), changed]), self.RULES, SESSION).body
        assert body["tools"] == [tool("f", "at 10:00"), changed]

    def test_a_request_without_tools_gets_none(self):
        rewriter = Rewriter()
        rewriter.rewrite(turn(0, tools=[tool("f")]), self.RULES, SESSION)
        assert rewriter.rewrite(turn(1), self.RULES, SESSION).body == turn(1)

    def test_a_new_conversation_that_begins_alike_has_its_own(self):
        rewriter = Rewriter()
        rewriter.rewrite(turn(0, tools=[tool("f")]), self.RULES, SESSION)
        again = turn(0, tools=[tool("g")])
        assert rewriter.rewrite(again, self.RULES, SESSION).body == again

    @given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, unique=True), min_size=1, max_size=5))
    def test_tools_only_grow(self, lists):
        rewriter = Rewriter()
        before = []
        for number, names in enumerate(lists):
            body = rewriter.rewrite(turn(number, tools=list(map(tool, names))), self.RULES, SESSION).body
            assert body["tools"][: len(before)] == before
            assert {each["function"]["name"] for each in body["tools"]} >= set(names)
            assert rewriter.rewrite(body, self.RULES, SESSION).body == body
            before = body["tools"]


class TestKeptReasoning:
    RULES = (RuleName.KEEP_REASONING,)

    def answered(self, rewriter, body, message, session=SESSION, stream=False):
        """The gateway has the answer `message` to `body` from an upstream."""
        heard = rewriter.rewrite(body, self.RULES, session).heard
        for piece in as_stream(message) if stream else [json.dumps({"choices": [{"message": message}]}).encode()]:
            heard.feed(piece)
        heard.ended(stream)

    def again(self, rewriter, message, session=SESSION):
        """What the upstream sees of `message` when it comes back in the second turn."""
        body = turn(1)
        body["messages"][2] = message
        return rewriter.rewrite(body, self.RULES, session).body["messages"][2]

    def test_dropped_reasoning_comes_back(self):
        for stream in (False, True):
            for field in ("reasoning_content", "reasoning"):
                rewriter = Rewriter()
                self.answered(rewriter, turn(0), assistant("a0", **{field: " Hm.\n"}), stream=stream)
                assert self.again(rewriter, assistant("a0")) == assistant("a0", **{field: " Hm.\n"})

    def test_calls_tell_turns_apart_and_arguments_may_be_respelt(self):
        rewriter = Rewriter()
        answer = assistant(None, reasoning_content="Look.", tool_calls=[{"index": 0, **CALL}])
        self.answered(rewriter, turn(0), answer, stream=True)
        respelt = {"id": "other", "function": {"name": "ls", "arguments": '{"path":"."}'}, "type": "function"}
        assert self.again(rewriter, assistant("", tool_calls=[respelt]))["reasoning_content"] == "Look."
        respelt["function"]["arguments"] = '{"path":".."}'
        assert "reasoning_content" not in self.again(rewriter, assistant("", tool_calls=[respelt]))

    def test_trimmed_reasoning_is_made_whole_and_other_reasoning_stays(self):
        rewriter = Rewriter()
        self.answered(rewriter, turn(0), assistant("a0", reasoning_content="Hm.\n\n"))
        assert self.again(rewriter, assistant("a0", reasoning_content="Hm."))["reasoning_content"] == "Hm.\n\n"
        assert self.again(rewriter, assistant("a0", reasoning_content="No."))["reasoning_content"] == "No."

    def test_an_edited_turn_and_another_history_get_none(self):
        rewriter = Rewriter()
        self.answered(rewriter, turn(0), assistant("a0", reasoning_content="Hm."))
        assert self.again(rewriter, assistant("a0, edited")) == assistant("a0, edited")
        assert self.again(rewriter, assistant("a0"), Session("other", "s1")) == assistant("a0")
        body = turn(1)
        body["messages"][1] = user("another question")
        assert rewriter.rewrite(body, self.RULES, SESSION).body == body

    def test_with_lines_that_move(self):
        """The next turn begins with what the client said, not with what was made of it."""
        rewriter = Rewriter()
        rules = (RuleName.KEEP_REASONING, RuleName.MOVE_VOLATILE_LINES)
        rewriter.rewrite(turn(0, f"{PROMPT}\n0"), rules, SESSION)
        heard = rewriter.rewrite(turn(1, f"{PROMPT}\n1"), rules, SESSION).heard
        heard.feed(json.dumps({"choices": [{"message": assistant("a1", reasoning="Hm.")}]}).encode())
        heard.ended(False)
        body = rewriter.rewrite(turn(2, f"{PROMPT}\n2"), rules, SESSION).body
        assert body["messages"][4] == assistant("a1", reasoning="Hm.")

    def test_answers_that_are_none_are_not_remembered(self):
        for data in (b"", b"{}", b"[1]", b"\xff", b'{"choices":[{"message":7}]}', b'{"choices":7}'):
            for stream in (False, True):
                heard = Rewriter().rewrite(turn(0), self.RULES, SESSION).heard
                heard.feed(data)
                heard.ended(stream)


def as_stream(message):
    """As deltas of some characters each."""
    deltas = [{"role": "assistant", "content": None}]
    for field in ("reasoning_content", "reasoning", "content"):
        deltas += [{field: char} for char in message.get(field) or ""]
    for call in message.get("tool_calls", ()):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        deltas += [{"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]}]
        deltas += [{"tool_calls": [{"index": call["index"], "function": {"arguments": char}}]} for char in arguments]
    for delta in deltas:
        yield b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1500)), max_size=60))
def test_memory_is_bounded_and_keeps_the_newest(steps):
    memory = Memory(4000)
    for key, size in steps:
        memory.remember(key, Thought("reasoning", "x" * size))
        assert memory.used_bytes <= 4000
        assert memory.recall(key) == Thought("reasoning", "x" * size)
