"""What drafts bring where an agent writes files back: decoding of replayed edits, with and without them.

    python -m benchmarks.replay

The answers are given (see `benchmarks/edits.py`): after each forward pass the logits of the recorded next token are
raised above all others. Everything else is the engine as it is: passes, drafts, their verification and their pace. So
both runs generate the same tokens, which is checked, and only the number of steps and their time differ.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks import inprocess, machine
from benchmarks.client import BenchmarkError
from benchmarks.edits import Edit, session
from benchmarks.options import add_model, count, parser, write_json
from benchmarks.report import percent, ratio, table
from engine.errors import StartError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from engine.attention.base import AttentionStep
    from engine.model.base import Decoder
    from engine.server.service import Service

HEAD = ("", "tokens/s", "drafted", "accepted", "ratio")
CERTAIN = 1e4
"""A logit that no model writes."""


@dataclass(frozen=True)
class Figures:
    """Medians over the rounds; drafted and accepted tokens of all rounds together."""

    tokens_per_round: int
    plain: float
    with_drafts: float
    drafted: int
    accepted: int


class Replay:
    """A decoder that computes as the other does, and then says what was recorded."""

    def __init__(self, decoder: Decoder) -> None:
        self.config = decoder.config
        self._decoder = decoder
        self._script: Tensor | None = None

    def follow(self, script: Sequence[int]) -> None:
        """From now on, one request at a time: `script[p + 1]` follows the token at position p."""
        import torch

        self._script = torch.tensor(script, dtype=torch.int64)

    def forward(self, ids: Tensor, positions: Tensor, rows: Tensor, attend: AttentionStep) -> Tensor:
        logits = self._decoder.forward(ids, positions, rows, attend)
        assert self._script is not None
        after = (positions[rows] + 1).clamp(max=len(self._script) - 1)
        return logits.scatter_(1, self._script[after].unsqueeze(1), CERTAIN)

    def hidden(self, ids: Tensor, positions: Tensor, attend: AttentionStep) -> Tensor:
        return self._decoder.hidden(ids, positions, attend)


class Player:
    """An engine that answers from the record."""

    def __init__(self, model: str, threads: int | None, drafts: bool) -> None:
        self.service: Service = inprocess.load(model, threads, kv_tokens=16384, drafts=drafts)
        self._replay = Replay(self.service.engine.decoder)
        self.service.engine.decoder = self._replay

    def rate(self, edits: Sequence[Edit], tenant: str) -> float:
        """Tokens a second of decoding: the first token of each answer belongs to its prompt."""
        seconds = sum(self._seconds(edit, tenant) for edit in edits)
        return sum(len(edit.answer) - 1 for edit in edits) / seconds

    def _seconds(self, edit: Edit, tenant: str) -> float:
        engine = self.service.engine
        request = inprocess.request(self.service, edit.prompt, len(edit.answer), tenant)
        self._replay.follow([*edit.prompt, *edit.answer])
        engine.scheduler.submit(request)
        with _inference():
            while request.generated == 0:
                engine.step()
            began = time.perf_counter()
            while request.finish is None:
                engine.step()
        seconds = time.perf_counter() - began
        if list(request.output) != edit.answer:
            raise BenchmarkError("the engine's output is not what was recorded")
        return seconds


def _inference() -> torch.inference_mode:
    import torch

    return torch.inference_mode()


def measure(plain: Player, drafting: Player, given: argparse.Namespace) -> Figures:
    """Both alternate, each round with other texts and a tenant of its own: nothing of former rounds helps."""
    texts = plain.service.preparer.tokenizer
    rates: list[tuple[float, float]] = []
    tokens = 0
    for number in range(given.rounds):
        edits = list(session(number, given.file, given.turns, texts))
        tokens = sum(len(edit.answer) for edit in edits)
        rates.append((plain.rate(edits, str(number)), drafting.rate(edits, str(number))))
    slow, fast = (statistics.median(column) for column in zip(*rates, strict=True))
    counters = drafting.service.engine.counters
    return Figures(tokens, slow, fast, counters.drafted_tokens, counters.accepted_tokens)


def rows(found: Figures) -> list[str]:
    share = percent(found.accepted / found.drafted if found.drafted else None)
    return table(
        HEAD,
        [
            ["without drafts", f"{found.plain:.1f}", "-", "-", "1.00"],
            [
                "with drafts",
                f"{found.with_drafts:.1f}",
                str(found.drafted),
                share,
                ratio(found.with_drafts, found.plain),
            ],
        ],
    )


def main() -> None:
    given = _options()
    try:
        plain, drafting = (Player(given.model, given.threads, drafts) for drafts in (False, True))
        found = measure(plain, drafting, given)
    except (BenchmarkError, StartError) as error:
        sys.exit(f"replay: {error}")
    print("\n".join(rows(found)))
    sizes = {"file": given.file, "turns": given.turns, "rounds": given.rounds}
    write_json(given.json, {"machine": machine.describe(), "sizes": sizes, "figures": asdict(found)})


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    add_model(options)
    options.add_argument("--file", type=count, default=400, help="tokens of the file that is written back")
    options.add_argument("--turns", type=count, default=3, help="edits in a session")
    options.add_argument("--rounds", type=count, default=3, help="sessions")
    return options.parse_args()


if __name__ == "__main__":
    main()
