"""From logits to tokens, for all requests of a step.

What rows have in common is done once for all (argmax, softmax); what is rare (penalties, masks, log-probabilities) is
done for its row alone. A row's token depends on nothing but its own logits and `Row`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.sample.noise import uniform
from engine.sample.params import SamplingParams

NOTHING_ALLOWED = -1

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Row:
    """One request's part of a step.

    `position` counts the tokens before the new one; with the seed it is all that the noise depends on. The ids are
    needed for penalties and `min_tokens` only. `mask` is an xgrammar bitmask: int32 [ceil(vocab / 32)], bit set =
    allowed.
    """

    params: SamplingParams
    position: int
    prompt_ids: Sequence[int] = ()
    output_ids: Sequence[int] = ()
    mask: Tensor | None = None


@dataclass(frozen=True)
class Sampled:
    """A token; NOTHING_ALLOWED if the mask or the biases leave none.

    The log-probabilities are the model's own, before penalties, masks and temperature, and are None unless the
    row's parameters ask for them. A `forced` token was not sampled: the grammar left no other way on, so that its
    log-probability is 0.
    """

    token: int
    logprob: float | None = None
    top: list[tuple[int, float]] | None = None
    forced: bool = False


def forced_token(token: int, params: SamplingParams) -> Sampled:
    """A token that the grammar forces, reported as the parameters ask."""
    if params.logprobs is None:
        return Sampled(token, forced=True)
    return Sampled(token, 0.0, [(token, 0.0)][: params.logprobs], forced=True)


def sample(logits: Tensor, rows: Sequence[Row]) -> list[Sampled]:
    """The next token of each row. logits: float32 [n, vocab], which are overwritten."""
    logprobs = {
        index: torch.log_softmax(logits[index], dim=-1)
        for index, row in enumerate(rows)
        if row.params.logprobs is not None
    }
    for index, row in enumerate(rows):
        _reshape(logits[index], row)
    tokens = _choose(logits, rows)
    return [_report(tokens[index], rows[index].params, logprobs.get(index)) for index in range(len(rows))]


def _reshape(logits: Tensor, row: Row) -> None:
    """Penalties, biases and the grammar's mask, in place. logits: [vocab]."""
    params = row.params
    if params.reshapes:
        _penalise(logits, row)
        if params.logit_bias:
            known = {token: bias for token, bias in params.logit_bias.items() if 0 <= token < len(logits)}
            logits[torch.tensor(list(known), dtype=torch.int64)] += torch.tensor(list(known.values()))
    if row.mask is not None:
        allowed = _allowed(row.mask, len(logits)).to(logits.device)
        logits.masked_fill_(~allowed, -torch.inf)
    if params.ends and len(row.output_ids) < params.min_tokens:
        _forbid_ends(logits, params.ends)


def _forbid_ends(logits: Tensor, ends: frozenset[int]) -> None:
    """Where a grammar allows nothing else, the request ends all the same."""
    ids = torch.tensor([token for token in ends if token < len(logits)], dtype=torch.int64)
    kept = logits[ids]
    logits[ids] = -torch.inf
    if not torch.isfinite(logits).any():
        logits[ids] = kept


def _penalise(logits: Tensor, row: Row) -> None:
    """Repetition as in CTRL (Keskar et al. 2019), over prompt and output; the others as OpenAI, over the output."""
    params = row.params
    if params.repetition_penalty != 1.0:
        seen = torch.tensor(list({*row.prompt_ids, *row.output_ids}), dtype=torch.int64)
        values = logits[seen]
        logits[seen] = torch.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    if row.output_ids and (params.presence_penalty or params.frequency_penalty):
        counts = Counter(row.output_ids)
        used = torch.tensor(list(counts.keys()), dtype=torch.int64)
        times = torch.tensor(list(counts.values()), dtype=torch.float32, device=logits.device)
        logits[used] -= params.presence_penalty + params.frequency_penalty * times


def _allowed(mask: Tensor, vocab: int) -> Tensor:
    """The bits of a mask as bool [vocab]; tokens beyond the mask are not allowed."""
    bits = (mask.view(torch.uint8).unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)) & 1
    allowed = bits.flatten()[:vocab].bool()
    return torch.nn.functional.pad(allowed, (0, vocab - len(allowed)))


def _choose(logits: Tensor, rows: Sequence[Row]) -> list[int]:
    best_values, tokens = _largest_of_each(logits)
    possible: list[bool] = torch.isfinite(best_values).tolist()
    noisy = [index for index, row in enumerate(rows) if not row.params.greedy and possible[index]]
    if noisy:
        temperatures = torch.tensor([rows[index].params.temperature for index in noisy], device=logits.device)
        chosen = logits if len(noisy) == len(rows) else logits[noisy]
        # Without the maximum first, a small temperature could overflow.
        shifted = (chosen - best_values[noisy].unsqueeze(-1)) / temperatures.unsqueeze(-1)
        probabilities = torch.softmax(shifted, dim=-1)
        for index, row in zip(noisy, probabilities.cpu().numpy(), strict=True):
            tokens[index] = _draw(row, rows[index])
    return [token if able else NOTHING_ALLOWED for token, able in zip(tokens, possible, strict=True)]


def _largest_of_each(logits: Tensor) -> tuple[Tensor, list[int]]:
    """The largest value of each row and its first place. numpy finds it in a tenth of the time that torch takes."""
    if logits.device.type != "cpu":
        values, places = logits.max(dim=-1)
        return values, places.tolist()
    best = torch.from_numpy(logits.numpy().argmax(axis=1))
    return logits.gather(1, best.unsqueeze(1)).squeeze(1), best.tolist()


def _draw(probabilities: Floats, row: Row) -> int:
    """One token by inverting the cumulative distribution, in the order of the ids. probabilities: [vocab]."""
    ids: Ids | None = None
    if row.params.cuts:
        ids = _kept(probabilities, row.params)
        probabilities = probabilities[ids]
    cumulative = probabilities.cumsum(dtype=np.float64)
    target = uniform(row.params.seed or 0, row.position) * cumulative[-1]
    at = int(cumulative.searchsorted(target, side="right"))
    if at == len(cumulative):  # the product was rounded up to the total
        at = int(probabilities.nonzero()[0][-1])
    return at if ids is None else int(ids[at])


def _kept(probabilities: Floats, params: SamplingParams) -> Ids:
    """The ids that top-k, top-p and min-p leave, ascending; of equal tokens the first. probabilities: [vocab]."""
    # Tokens below the floor can't be kept: by min-p, or since all of them together have less than 1 - top_p.
    least = params.min_p * probabilities.max()
    floor = 0.0 if params.top_k else max(least, (1 - params.top_p) / (2 * len(probabilities)))
    ids = (probabilities >= floor).nonzero()[0]
    values = probabilities[ids]
    ranked = _largest(values, params.top_k or len(values))
    mass = ranked.cumsum(dtype=np.float64)
    goal = params.top_p * (mass[-1] if params.top_k else 1.0)
    count = max(1, int((mass - ranked < goal).sum())) if params.top_p < 1 else len(ranked)
    count = min(count, int((ranked >= least).sum()))
    last = ranked[count - 1]
    equal = (values == last).nonzero()[0][: int((ranked[:count] == last).sum())]
    return np.sort(np.concatenate([ids[values > last], ids[equal]]))


def _largest(values: Floats, count: int) -> Floats:
    """The `count` largest of `values`, descending."""
    if count < len(values):
        values = np.partition(values, len(values) - count)[len(values) - count :]
    return np.sort(values)[::-1]


def _report(token: int, params: SamplingParams, logprobs: Tensor | None) -> Sampled:
    if logprobs is None or params.logprobs is None or token == NOTHING_ALLOWED:
        return Sampled(token)
    values, ids = logprobs.topk(min(params.logprobs, len(logprobs)))
    return Sampled(token, float(logprobs[token]), list(zip(ids.tolist(), values.tolist(), strict=True)))
