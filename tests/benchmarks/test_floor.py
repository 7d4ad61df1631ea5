"""The floor's arithmetic against a count that walks through every product of a tiny run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.floor import Arithmetic, arithmetic, floors, rows
from benchmarks.rates import Rates, measure_rates
from benchmarks.scenario import Scenario
from engine.model.config import ModelConfig

TINY = ModelConfig(
    architecture="llama",
    vocab_size=11,
    hidden_size=6,
    intermediate_size=5,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=2,
    max_context=8192,
    tied_head=True,
)


def counted(config: ModelConfig, wanted: Scenario) -> Arithmetic:
    """Speak all conversations token by token; compute each distinct prefix once, one multiply-add at a time."""
    matrices = [
        (config.hidden_size, config.heads * config.head_dim),
        (config.hidden_size, config.kv_heads * config.head_dim),
        (config.hidden_size, config.kv_heads * config.head_dim),
        (config.heads * config.head_dim, config.hidden_size),
        (config.hidden_size, config.intermediate_size),
        (config.hidden_size, config.intermediate_size),
        (config.intermediate_size, config.hidden_size),
    ]
    computed: set[tuple[str, ...]] = set()
    linears = attention = 0
    for client in range(wanted.clients):
        said = tuple(f"system {i}" for i in range(wanted.system_tokens))
        for turn, size in enumerate(wanted.turn_tokens):
            said += tuple(f"{client} says {turn} {i}" for i in range(size))
            for i in range(wanted.tokens):
                for length in range(1, len(said) + 1):
                    if said[:length] in computed:
                        continue
                    computed.add(said[:length])
                    for _ in range(config.layers):
                        linears += 2 * sum(rows * columns for rows, columns in matrices)
                        for _ in range(config.heads):
                            attention += sum(2 * config.head_dim + 2 * config.head_dim for _ in said[:length])
                linears += 2 * config.vocab_size * config.hidden_size
                said += (f"{client} hears {turn} {i}",)
    return Arithmetic(linears, attention)


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("tied", [True, False])
def test_the_arithmetic_is_what_walking_through_a_run_counts(clients, tokens, tied):
    config = replace(TINY, tied_head=tied)
    wanted = Scenario(clients, tokens, scale=100)
    assert arithmetic(config, wanted) == counted(config, wanted)


def test_clients_share_the_system_prompt_only():
    one, two = (arithmetic(TINY, Scenario(clients)) for clients in (1, 2))
    assert one.linears < two.linears < 2 * one.linears
    assert one.attention < two.attention < 2 * one.attention


def test_a_floor_is_arithmetic_over_rate():
    found = {floor.name: floor.seconds for floor in floors(Arithmetic(100.0, 60.0), Rates(10.0, 20.0, 50.0))}
    assert found == {"float32": 16.0, "bfloat16": 8.0, "int8 linears, attention in bfloat16": 5.0}


def test_kernels_that_are_missing_or_slower_give_no_better_floor():
    assert [floor.name for floor in floors(Arithmetic(1.0, 1.0), Rates(10.0, None, None))] == ["float32"]
    slow = floors(Arithmetic(100.0, 60.0), Rates(10.0, 5.0, 50.0))[-1]
    assert (slow.name, slow.seconds) == ("int8 linears, attention in float32", 8.0)


def test_the_table_has_the_ratio_only_beside_a_run():
    found = floors(Arithmetic(100.0, 60.0), Rates(10.0, None, None))
    assert rows(found, 20.0)[-1].endswith("| 16.0 s | 1.25 |")
    assert rows(found)[-1].endswith("| - |")


def test_rates_are_measured():
    assert measure_rates(TINY).float32 > 0
