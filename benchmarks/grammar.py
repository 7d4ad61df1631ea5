"""What a grammar costs: the first compilation, the next turns, and each token.

    python -m benchmarks.grammar
    python -m benchmarks.grammar --peer vllm

The grammar is that of an agent with 12 tools and about 14 kB of schemas. Texts are calls of these tools. A turn is all
that it takes from the request's `tools` to a state that masks can be filled from. Beside a peer it is one that has to
call a tool (`tool_choice: "required"`), which is when vLLM constrains an answer with these tools too.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.client import BenchmarkError
from benchmarks.options import add_model, count, parser, write_json
from benchmarks.peers.base import PeerError

if TYPE_CHECKING:
    from engine.output.tools.tool import Tool
    from engine.prompt.tokenizer import Tokenizer
    from engine.sample.grammar import Grammar, GrammarCompiler

TOOLS = 12
TURNS = 50
WORDS = [
    "path",
    "pattern",
    "command",
    "timeout",
    "limit",
    "offset",
    "recursive",
    "encoding",
    "content",
    "query",
    "branch",
    "message",
]


def tools() -> list[Tool]:
    """Twelve tools with the mix that agents have: text, numbers, enums, arrays of objects."""
    from engine.output.tools.tool import Tool

    return [Tool(f"tool_{WORDS[index]}", "An agent's tool.", _parameters(index)) for index in range(TOOLS)]


def _parameters(index: int) -> dict[str, Any]:
    about = "What the tool is to work on, relative to the folder of the project, as the user sees it."
    properties: dict[str, Any] = {
        word: {"type": ("string", "integer", "boolean")[(index + place) % 3], "description": about}
        for place, word in enumerate(WORDS[:6])
    }
    properties["mode"] = {"enum": ["read", "write", "append", f"mode{index}"], "description": about}
    edit = {"type": "object", "properties": {"old": {"type": "string"}, "new": {"type": "string"}}}
    properties["edits"] = {"type": "array", "items": {**edit, "required": ["old", "new"]}, "description": about}
    return {"type": "object", "properties": properties, "required": [WORDS[0], "mode"], "additionalProperties": False}


def call_of(tool: Tool) -> str:
    """JSON arguments with a value for each property."""
    values: dict[str, Any] = {"string": "src/engine/core.py", "integer": 40, "boolean": True}
    properties = tool.parameters["properties"]
    arguments = {name: values[schema["type"]] for name, schema in properties.items() if schema.get("type") in values}
    return json.dumps({**arguments, "mode": "write", "edits": [{"old": "return a - b", "new": "return a + b"}]})


def milliseconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return (time.perf_counter() - began) * 1e3


def token_costs(grammar: Grammar, ids: Sequence[int], words: int) -> list[float]:
    """Microseconds of mask and accept, for each token of a text."""
    import torch

    state, costs = grammar.start(), []
    for token in ids:
        mask = torch.full((words,), -1, dtype=torch.int32)
        began = time.perf_counter()
        state.fill(mask)
        if not state.accept(token):
            raise BenchmarkError("the grammar refuses a text that it should allow")
        costs.append((time.perf_counter() - began) * 1e6)
    return costs


def forced_share(grammar: Grammar, ids: Sequence[int]) -> float:
    """The share of a text's tokens that jump-forward appends without sampling."""
    state, forced, at = grammar.start(), 0, 0
    while at < len(ids):
        state.accept(ids[at])
        at += 1
        jump = state.forced()
        same = 0
        while same < len(jump) and at + same < len(ids) and jump[same] == ids[at + same]:
            state.accept(ids[at + same])
            same += 1
        forced, at = forced + same, at + same
    return forced / len(ids)


def measure(compiler: GrammarCompiler, tokenizer: Tokenizer, turns: int, tool_choice: str = "auto") -> dict[str, float]:
    """All figures; the compiler is fresh."""
    from engine.output.tools.fence import FenceFormat
    from engine.output.tools.tool import read_choice, read_tools

    tool_format = FenceFormat()
    body = [tool.as_openai() for tool in tools()]

    def turn() -> Grammar:
        offered = read_tools(body)
        tag = tool_format.structural_tag(offered, read_choice(tool_choice, offered), True)
        assert tag is not None
        grammar = compiler.structural_tag(tag)
        grammar.start()
        return grammar

    first = milliseconds(turn)
    warm = [milliseconds(turn) for _ in range(turns)]
    grammar, offered = turn(), tools()
    texts = [tokenizer.encode(tool_format.render_call(tool.name, call_of(tool), offered)) for tool in offered]
    costs = [cost for ids in texts for cost in token_costs(grammar, ids, compiler.mask_words)]
    return {
        "schema_bytes": sum(len(json.dumps(tool.parameters)) for tool in offered),
        "first_ms": first,
        "turn_ms_median": statistics.median(warm),
        "token_us_median": statistics.median(costs),
        "token_us_p99": statistics.quantiles(costs, n=100)[98],
        "forced_share": statistics.mean(forced_share(grammar, ids) for ids in texts),
    }


def beside(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    """How many times ours the peer's figures are."""
    return {name: theirs[name] / value for name, value in ours.items() if name in theirs}


def compare(model: Path, turns: int, fresh: Callable[[], GrammarCompiler], tokenizer: Tokenizer) -> dict[str, Any]:
    """Ours and vLLM's, one after the other. PeerError where there is no vLLM."""
    from benchmarks.peers.vllm_costs import vllm_costs
    from engine.weights.source import home_folder

    calls = [(tool.name, json.loads(call_of(tool))) for tool in tools()]
    body = [tool.as_openai() for tool in tools()]
    theirs = vllm_costs(home_folder() / "bench" / "vllm", model, body, calls, turns)
    ours = measure(fresh(), tokenizer, turns, "required")
    return {"sapwood": ours, "vllm": theirs, "vllm ÷ sapwood": beside(ours, theirs)}


def main(argv: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    add_model(options)
    options.add_argument("--turns", type=count, default=TURNS, help="turns with the compiled grammar")
    options.add_argument("--peer", choices=["vllm"], help="measure this one too, in its own environment")
    chosen = options.parse_args(argv)
    from engine.prompt.tokenizer import load_tokenizer
    from engine.sample.grammar import GrammarCompiler
    from engine.weights.checkpoint import open_checkpoint
    from engine.weights.source import home_folder, resolve

    model = resolve(chosen.model, home_folder())
    tokenizer = load_tokenizer(open_checkpoint(model).metadata, None)

    def fresh() -> GrammarCompiler:
        return GrammarCompiler(tokenizer, tokenizer.vocab_size, tokenizer.eos_ids)

    figures: dict[str, Any] = measure(fresh(), tokenizer, chosen.turns)
    if chosen.peer is not None:
        try:
            figures["required"] = compare(model, chosen.turns, fresh, tokenizer)
        except PeerError as error:
            figures[chosen.peer] = f"not measured: {error}"
    print(json.dumps(figures, indent=2, ensure_ascii=False))
    write_json(chosen.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
