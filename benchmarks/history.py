"""What the text of a long conversation costs before a follow-up turn can be scheduled; no model is loaded.

    python -m benchmarks.history

A conversation of tasks, tool calls and their results grows to so many tokens. Timed is the next turn's prompt, whose
history is known: rendering the template, finding the remembered turn and encoding what is new. Beside it stands the
ordinary encoding of the whole text. Last comes what remembering the new answer takes, at the end of its stream.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count as numbers
from random import Random

from benchmarks import corpus
from benchmarks.options import count, counts, parser, write_json
from benchmarks.report import table
from benchmarks.scenario import cut
from engine.errors import StartError
from engine.output.tools import format_for
from engine.output.tools.tool import Tool
from engine.prompt.answer import Conversation, history_text
from engine.prompt.messages import Message, Role, ToolCall
from engine.prompt.template import ChatTemplate, load_chat_template
from engine.prompt.tokenizer import Tokenizer, load_tokenizer
from engine.prompt.transcript import Transcript
from engine.weights.checkpoint import open_checkpoint
from engine.weights.source import home_folder, resolve

HEAD = ("history", "rendered", "known ids + new text", "both", "encoded afresh", "remembered")
TOOLS = (Tool("run_tests", "Run the tests.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
RESULT_TOKENS = 700


def conversation(tokenizer: Tokenizer, seed: int) -> Iterator[list[Message]]:
    """One turn after another: an answer that calls a tool, and what the tool says."""
    source = Random(f"history/{seed}")
    yield [
        Message(Role.SYSTEM, cut(corpus.rules(source), 2000, tokenizer)),
        Message(Role.USER, next(corpus.tasks(source))),
    ]
    for number in numbers():
        call = ToolCall(f"call_{number}", "run_tests", json.dumps({"path": f"tests/test_{number}.py"}))
        output = cut(corpus.pytest_output(source), RESULT_TOKENS, tokenizer)
        yield [Message(Role.ASSISTANT, next(corpus.tasks(source)), (call,)), Message(Role.TOOL, output)]


def measure(tokens: int, tokenizer: Tokenizer, template: ChatTemplate, repeats: int) -> dict[str, float]:
    """Seconds (medians) of each part, for the turn after `tokens` of history."""
    transcript, chat, known = Transcript(4 * tokens), Conversation(()), 0
    for turn in conversation(tokenizer, tokens):
        if turn[0].role is Role.ASSISTANT:
            before = chat.render(template)
            text = history_text(before, chat, turn[0], template, tokenizer)
            assert text is not None
            found = transcript.encode("", before, tokenizer)
            ids = [*found.ids, *tokenizer.encode(text[len(before) :])]
            transcript.remember("", text, ids, after=found.turn, answers=chat.answers + 1)
            known = len(ids)
        last, chat = chat, Conversation([*chat.messages, *turn], TOOLS)
        if known >= tokens:
            break
    text = chat.render(template)
    whole, answer = transcript.encode("", text, tokenizer), chat.messages[-2]
    assert whole.turn is not None
    assert whole.turn.length == known

    def remember() -> None:
        later = history_text(before, last, answer, template, tokenizer)
        transcript.remember("", later or "", ids, after=found.turn)

    return {
        "tokens": len(whole.ids),
        "characters": len(text),
        "render": _median(lambda: chat.render(template), repeats),
        "splice": _median(lambda: transcript.encode("", text, tokenizer), repeats),
        "afresh": _median(lambda: tokenizer.encode(text), max(3, repeats // 10)),
        "remember": _median(remember, repeats),
    }


def _median(function: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def row(figures: dict[str, float]) -> tuple[str, ...]:
    times = (
        figures["render"],
        figures["splice"],
        figures["render"] + figures["splice"],
        figures["afresh"],
        figures["remember"],
    )
    return (
        f"{figures['tokens']:,.0f} tokens, {figures['characters']:,.0f} characters",
        *(f"{t * 1e3:.2f} ms" for t in times),
    )


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--model", default="smollm2", help="known name or .gguf file")
    options.add_argument("--tokens", type=counts, default=[10_000, 100_000], help="of history, several with commas")
    options.add_argument("--repeats", type=count, default=50)
    given = options.parse_args()
    try:
        checkpoint = open_checkpoint(resolve(given.model, home_folder()))
        tokenizer = load_tokenizer(checkpoint.metadata, checkpoint.folder)
        source = load_chat_template(checkpoint.metadata, checkpoint.folder)
    except StartError as error:
        print(error, file=sys.stderr)
        return 1
    if source is None:
        print(f"{given.model} has no chat template; name a chat model with --model", file=sys.stderr)
        return 1
    template = ChatTemplate(source, tokenizer.bos, tokenizer.eos, format_for(source))
    figures = [measure(tokens, tokenizer, template, given.repeats) for tokens in given.tokens]
    print("\n".join(table(HEAD, [row(each) for each in figures])))
    write_json(given.json, {"histories": figures})
    return 0


if __name__ == "__main__":
    sys.exit(main())
