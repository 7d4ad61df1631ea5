"""What vLLM's structured output costs a turn with tools. Run by the peer's own Python: it imports nothing of this
repository.

Standard input is one JSON object: `folder` (a model's), `tools` (OpenAI's), `turns`, `calls` (pairs of a name and
arguments). The last line of the output is one with the figures. A turn is what vLLM does for `tool_choice: "required"`:
the schema from the tools and its validation in the frontend; compilation, or finding what was compiled, and a matcher
in the engine core. A token is the core's bitmask for one request and its step over the token.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any


class Structured:
    """vLLM's own manager, as its engine core uses it."""

    def __init__(self, folder: str) -> None:
        from vllm.engine.arg_utils import EngineArgs  # type: ignore[import-not-found, unused-ignore]
        from vllm.v1.structured_output import (  # type: ignore[import-not-found, unused-ignore]
            StructuredOutputManager,
        )

        self.config = EngineArgs(model=folder, dtype="bfloat16", max_model_len=2048).create_engine_config()
        self.manager = StructuredOutputManager(self.config)

    def begin(self, tools: Sequence[Any]) -> tuple[Any, float, float]:
        """A request that is ready to run; milliseconds of the frontend and of the core."""
        from vllm.sampling_params import (  # type: ignore[import-not-found, unused-ignore]
            SamplingParams,
            StructuredOutputsParams,
        )
        from vllm.tool_parsers.utils import (  # type: ignore[import-not-found, unused-ignore]
            get_json_schema_from_tools,
        )
        from vllm.v1.structured_output.request import (  # type: ignore[import-not-found, unused-ignore]
            StructuredOutputRequest,
        )

        began = time.perf_counter()
        schema = get_json_schema_from_tools("required", tools)
        params = SamplingParams(structured_outputs=StructuredOutputsParams(json=schema))
        config = self.config
        params._validate_structured_outputs(
            config.model_config, config.structured_outputs_config, self.manager.tokenizer
        )
        checked = time.perf_counter()
        structured = StructuredOutputRequest.from_sampling_params(params)
        request = SimpleNamespace(
            request_id="r",
            sampling_params=params,
            structured_output_request=structured,
            use_structured_output=True,
            prompt_token_ids=[],
        )
        self.manager.grammar_init(request)
        structured._grammar.result()
        return request, (checked - began) * 1e3, (time.perf_counter() - checked) * 1e3

    def token_costs(self, request: Any, ids: Sequence[int]) -> list[float]:
        """Microseconds of each token of a text."""
        costs = []
        assert request.structured_output_request.is_grammar_ready
        for token in ids:
            began = time.perf_counter()
            self.manager.grammar_bitmask({"r": request}, ["r"], {})
            if not self.manager.accept_tokens(request, [token]):
                sys.exit(f"error: the grammar refuses token {token}")
            costs.append((time.perf_counter() - began) * 1e6)
        return costs


def measure(structured: Structured, given: Mapping[str, Any]) -> dict[str, float]:
    from vllm.entrypoints.openai.chat_completion.protocol import (  # type: ignore[import-not-found, unused-ignore]
        ChatCompletionToolsParam,
    )

    def turn() -> tuple[Any, float, float]:
        return structured.begin([ChatCompletionToolsParam.model_validate(tool) for tool in given["tools"]])

    _, checked, compiled = turn()
    warm = [turn()[1:] for _ in range(given["turns"])]
    costs: list[float] = []
    for name, arguments in given["calls"]:
        text = json.dumps([{"name": name, "parameters": arguments}])
        costs += structured.token_costs(turn()[0], structured.manager.tokenizer.encode(text))
    return {
        "first_ms": checked + compiled,
        "turn_ms_median": statistics.median(sum(each) for each in warm),
        "core_ms_median": statistics.median(core for _, core in warm),
        "token_us_median": statistics.median(costs),
        "token_us_p99": statistics.quantiles(costs, n=100)[98],
    }


def main() -> None:
    given = json.load(sys.stdin)
    print(json.dumps(measure(Structured(given["folder"]), given)))


if __name__ == "__main__":
    main()
