"""The floor of a scenario's run: its arithmetic over the rate at which this machine multiplies matrices.

    python -m benchmarks.floor --clients 16 --tokens 32

Counted is every token that has to be computed once: the system prompt once for all clients, each client's own texts,
and its answers but for the very last token, which is never an input. The few tokens that a chat template adds are left
out, and so is everything that isn't a matrix product: a floor may be too low, never too high.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks import machine
from benchmarks.options import add_scenario, parser, scenario, write_json
from benchmarks.rates import Rates, measure_rates
from benchmarks.report import NOTHING, table
from benchmarks.scenario import Scenario
from engine.errors import StartError

if TYPE_CHECKING:
    from engine.model.config import ModelConfig

HEAD = ("floor of sapwood's run", "operations a second", "floor", "time ÷ floor")


@dataclass(frozen=True)
class Arithmetic:
    """Operations of a run, a multiplication and an addition counting as two."""

    linears: float
    attention: float


@dataclass(frozen=True)
class Floor:
    """The seconds that the arithmetic takes at the rates of some number types."""

    name: str
    rates: tuple[float, ...]
    seconds: float


def arithmetic(config: ModelConfig, wanted: Scenario) -> Arithmetic:
    """A token behind p others reads p + 1 keys and values; logits are needed for generated tokens only."""
    shared, turns = wanted.system_tokens, wanted.turn_tokens
    generated = len(turns) * wanted.tokens
    own = sum(turns) + generated - 1
    tokens = shared + wanted.clients * own
    keys = _pairs(shared) + wanted.clients * (_pairs(shared + own) - _pairs(shared))
    logits = wanted.clients * generated * config.vocab_size * config.hidden_size
    return Arithmetic(
        linears=2.0 * (tokens * _layer_weights(config) + logits),
        attention=2.0 * keys * 2 * config.layers * config.heads * config.head_dim,
    )


def _layer_weights(config: ModelConfig) -> int:
    """The weights that every token is multiplied with: all layers, neither the embedding nor the head."""
    heads = 1 if config.tied_head else 2
    return config.parameters - heads * config.vocab_size * config.hidden_size


def _pairs(tokens: int) -> int:
    """How many (query, key) pairs a sequence has where each token sees itself and all before it."""
    return tokens * (tokens + 1) // 2


def floors(work: Arithmetic, rates: Rates) -> list[Floor]:
    """Everything in float32; everything in bfloat16; and the linears in int8 with attention in the faster of the two.

    A row is left out where the machine has no kernel for it.
    """
    whole = work.linears + work.attention
    found = [Floor("float32", (rates.float32,), whole / rates.float32)]
    if rates.bfloat16 is not None:
        found.append(Floor("bfloat16", (rates.bfloat16,), whole / rates.bfloat16))
    if rates.int8 is not None:
        other = max(rates.float32, rates.bfloat16 or 0.0)
        name = "int8 linears, attention in " + ("float32" if other == rates.float32 else "bfloat16")
        found.append(Floor(name, (rates.int8, other), work.linears / rates.int8 + work.attention / other))
    return found


def rows(found: Sequence[Floor], seconds: float | None = None) -> list[str]:
    """A Markdown table; the ratio where a run took `seconds`."""
    return table(
        HEAD,
        [
            [
                floor.name,
                ", ".join(f"{rate / 1e9:,.0f} G" for rate in floor.rates),
                f"{floor.seconds:.1f} s",
                NOTHING if seconds is None else f"{seconds / floor.seconds:.2f}",
            ]
            for floor in found
        ],
    )


def words(work: Arithmetic) -> str:
    return f"arithmetic: {work.linears / 1e12:.2f} T operations of linears, {work.attention / 1e12:.2f} of attention"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="smollm2", help="known name or .gguf file")
    add_scenario(options)
    given = options.parse_args()

    from engine.weights.checkpoint import open_checkpoint
    from engine.weights.source import home_folder, resolve

    try:
        config = open_checkpoint(resolve(given.model, home_folder())).config
    except StartError as error:
        sys.exit(f"floor: {error}")
    work = arithmetic(config, scenario(given))
    found = floors(work, measure_rates(config, os.cpu_count()))
    print(words(work))
    print("\n".join(rows(found)))
    figures = {"arithmetic": asdict(work), "floors": [asdict(floor) for floor in found]}
    write_json(given.json, {"machine": machine.describe(), "scenario": asdict(scenario(given)), **figures})


if __name__ == "__main__":
    main()
