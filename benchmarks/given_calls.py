"""Tool calls that are given, token for token, as an engine with jump-forward would write them.

What a grammar forces is spelled in its tokens, the rest in the tokenizer's. So an engine that takes one step for each
token and one that jumps can both be made to say the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmarks.client import BenchmarkError

if TYPE_CHECKING:
    from engine.output.tools.base import ToolFormat
    from engine.output.tools.tool import Tool
    from engine.prompt.tokenizer import Tokenizer
    from engine.sample.grammar import GrammarState

SPELLINGS = ((", ", ": "), (",", ":"))
"""Separators of JSON on one line. Which of them a grammar allows is its own affair."""


def call_text(
    tool_format: ToolFormat, name: str, arguments: Mapping[str, Any], tools: Sequence[Tool], state: GrammarState
) -> str:
    """The call as the grammar allows it. BenchmarkError where it allows none of the spellings."""
    for separators in SPELLINGS:
        text = tool_format.render_call(name, json.dumps(arguments, separators=separators), tools)
        if state.accepts(text):
            return text
    raise BenchmarkError(f"the grammar allows no call of {name} with these arguments")


def call_ids(text: str, state: GrammarState, tokenizer: Tokenizer) -> list[int]:
    """The tokens of `text`, and the one that ends it; `state` is at its beginning, and is moved to its end."""
    ids: list[int] = []
    left = text.encode()
    while left:
        token = tokenizer.encode(left.decode())[0]
        if not state.accept(token):
            raise BenchmarkError(f"the grammar refuses {left[:20]!r}")
        ids.append(token)
        left = left[len(tokenizer.token_bytes(token)) :]
        for forced in state.forced():
            piece = tokenizer.token_bytes(forced)
            if not left.startswith(piece) or not left or not state.accept(forced):
                break
            ids.append(forced)
            left = left[len(piece) :]
    return [*ids, min(tokenizer.eos_ids)]
