"""A tool-calling loop with OpenAI's Python SDK. Only the base URL is Sapwood's.

export OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=unused
python openai_client.py "How many words has: the sapwood carries the water?"
"""

from __future__ import annotations

import json
import sys
import uuid

from openai import OpenAI

TOOL = {
    "type": "function",
    "function": {
        "name": "count_words",
        "description": "Count the words of a text.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}
MOST_TURNS = 8


def ask(client: OpenAI, question: str) -> str:
    """The answer. Messages are only ever appended: each turn finds the last one's prefix in the cache."""
    model = client.models.list().data[0].id
    session = {"x-sapwood-session": str(uuid.uuid4())}  # optional: the gateway would find the conversation by itself
    messages: list = [{"role": "user", "content": question}]
    for turn in range(1, MOST_TURNS + 1):
        with client.chat.completions.stream(
            model=model,
            messages=messages,
            tools=[TOOL],
            stream_options={"include_usage": True},
            extra_headers=session,
        ) as stream:
            for event in stream:
                if event.type == "content.delta":
                    print(event.delta, end="", flush=True)
            reply = stream.get_final_completion()
        message = reply.choices[0].message
        show(turn, reply.usage)
        messages.append(message.to_dict(exclude_none=True))
        if not message.tool_calls:
            return message.content or ""
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": count_words(call.function.arguments)}
            for call in message.tool_calls
        ]
    return "no answer"


def count_words(arguments: str) -> str:
    try:
        return str(len(json.loads(arguments)["text"].split()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"cannot read the arguments: {error!r}"  # the model may try again


def show(turn: int, usage) -> None:
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details else None
    print(f"\n[turn {turn}: prompt {usage.prompt_tokens}, cached {cached}]", file=sys.stderr)


if __name__ == "__main__":
    ask(OpenAI(), " ".join(sys.argv[1:]) or "How many words has: the sapwood carries the water?")
