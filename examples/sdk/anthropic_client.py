"""A tool-calling loop with Anthropic's Python SDK, on any model behind Sapwood.

export ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_API_KEY=unused      (without /v1)
python anthropic_client.py "How many words has: the sapwood carries the water?"
"""

from __future__ import annotations

import sys

from anthropic import Anthropic

TOOL = {
    "name": "count_words",
    "description": "Count the words of a text.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
MOST_TURNS = 8


def ask(client: Anthropic, question: str) -> str:
    """The answer. Messages are only ever appended: each turn finds the last one's prefix in the cache."""
    model = client.models.list().data[0].id
    messages: list = [{"role": "user", "content": question}]
    for turn in range(1, MOST_TURNS + 1):
        with client.messages.stream(model=model, max_tokens=1024, messages=messages, tools=[TOOL]) as stream:
            for text in stream.text_stream:
                print(text, end="", flush=True)
            reply = stream.get_final_message()
        show(turn, reply.usage)
        messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
        if reply.stop_reason != "tool_use":
            return "".join(block.text for block in reply.content if block.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": count_words(block.input)}
            for block in reply.content
            if block.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})
    return "no answer"


def count_words(arguments) -> str:
    text = arguments.get("text")
    return str(len(text.split())) if isinstance(text, str) else "`text` must be a string"


def show(turn: int, usage) -> None:
    cached = usage.cache_read_input_tokens
    print(f"\n[turn {turn}: prompt {usage.input_tokens + (cached or 0)}, cached {cached}]", file=sys.stderr)


if __name__ == "__main__":
    ask(Anthropic(), " ".join(sys.argv[1:]) or "How many words has: the sapwood carries the water?")
