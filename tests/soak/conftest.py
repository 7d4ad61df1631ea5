"""What the stub model must say: its pure function of all tokens before, without engine, cache or attention."""

from __future__ import annotations

import functools

import pytest
import torch

from engine.model.stub import StubDecoder, _digits
from engine.sample.params import SamplingParams
from engine.sample.sampler import Row, sample

VOCABULARY = 61
EVEN, ODD = 0x55555555, 0x55555555 << 1


class Alternating:
    """A grammar of even and odd tokens in turn, as the engine sees one (`GrammarState`)."""

    finished = False

    def __init__(self):
        self.even = True

    def fill(self, mask):
        mask.fill_(EVEN if self.even else ODD - 2**32)

    def accept(self, token):
        allowed = (token % 2 == 0) == self.even
        self.even = self.even != allowed
        return allowed

    def rollback(self, tokens):
        self.even = self.even != (tokens % 2 == 1)

    def forced(self):
        return []


@functools.lru_cache(maxsize=4096)
def expected(
    prompt: tuple[int, ...], max_tokens: int, temperature: float, seed: int | None, constrained: bool
) -> list[int]:
    params = SamplingParams(temperature=temperature, seed=seed)
    decoder = StubDecoder(VOCABULARY)
    grammar = Alternating() if constrained else None
    mask = torch.full(((VOCABULARY + 31) // 32,), -1, dtype=torch.int32)
    sums = _digits(torch.tensor(prompt), torch.arange(len(prompt))).sum(0, keepdim=True).to(torch.int64)
    output: list[int] = []
    while True:
        if grammar is not None:
            grammar.fill(mask)
        row = Row(params, len(prompt) + len(output), prompt, output, mask if constrained else None)
        token = sample(decoder._logits(sums), [row])[0].token
        assert grammar is None or grammar.accept(token)
        output.append(token)
        if len(output) == max_tokens:
            return output
        place = torch.tensor([len(prompt) + len(output) - 1])
        sums += _digits(torch.tensor([token]), place).to(torch.int64)


@pytest.fixture(scope="session")
def stub_output():
    """(prompt, max_tokens, temperature, seed, constrained) -> the tokens."""
    return expected


@pytest.fixture(scope="session")
def new_grammar():
    return Alternating


@pytest.fixture(scope="session")
def vocabulary():
    return VOCABULARY
