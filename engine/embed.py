"""Embeddings: the mean of a text's last hidden states, computed by the engine thread between its steps.

The KV pool and the tree stay out of it: what is cached has keys and values but no hidden states, so a text is
computed whole, over keys and values of its own. They exist for one text at a time, and between two steps one piece of
it is computed: a stream waits for that piece at most.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.attention.base import Attention
from engine.attention.cpu import CPUAttention
from engine.attention.kv import KVTensors
from engine.attention.native import NativeAttention
from engine.attention.plan import Segment, plan_attention
from engine.model.base import Decoder
from engine.schedule.budget import Load, StepBudget

log = logging.getLogger("sapwood.engine")


class MeanPooling:
    """One text while it is computed. `done` of its tokens are in the sum."""

    def __init__(self, decoder: Decoder, attention: Attention, ids: Sequence[int]) -> None:
        """`attention` is that of the engine; this text gets the same kind over a pool of its own."""
        self.done = 0
        self._decoder = decoder
        self._ids = torch.tensor(ids, dtype=torch.int64)
        self._attention = _same_kind(attention, KVTensors(decoder.config, len(ids), attention.kv.dtype))
        self._sum = torch.zeros(decoder.config.hidden_size, dtype=torch.float64)

    @property
    def left(self) -> int:
        return len(self._ids) - self.done

    def add(self, count: int) -> None:
        """Compute the next `count` tokens."""
        start, end = self.done, self.done + count
        step = self._attention.step(plan_attention([Segment([(0, start)], [(start, count)], count)]))
        hidden = self._decoder.hidden(self._ids[start:end], torch.arange(start, end), step)
        self._sum += hidden.sum(0, dtype=torch.float64)
        self.done = end

    def vector(self) -> Tensor:
        """float32 [hidden_size], of length 1: the mean's direction, so that a dot product is the cosine."""
        return torch.nn.functional.normalize(self._sum / self.done, dim=0).float()


@dataclass(eq=False)
class EmbeddingJob:
    """A text and who waits for its vector; cancelling `vector` ends the job."""

    ids: Sequence[int]
    vector: Future[list[float]] = field(default_factory=Future)


class EmbeddingQueue:
    """Jobs, one after another. Lives on the engine thread."""

    def __init__(self, decoder: Decoder, attention: Attention, budget: StepBudget) -> None:
        self.tokens = 0
        """Tokens computed since the start."""
        self._decoder = decoder
        self._attention = attention
        self._budget = budget
        self._jobs: deque[EmbeddingJob] = deque()
        self._pooling: MeanPooling | None = None
        """Of the first job, once it has begun."""

    @property
    def idle(self) -> bool:
        return not self._jobs

    def add(self, job: EmbeddingJob) -> None:
        self._jobs.append(job)

    def advance(self, streams: int) -> None:
        """Compute one piece of the oldest text, small enough for so many streams to wait for it.

        What goes wrong ends that job alone.
        """
        while self._jobs and self._jobs[0].vector.cancelled():
            self._drop()
        if not self._jobs:
            return
        job = self._jobs[0]
        try:
            vector = self._piece(job, streams)
        except Exception as error:
            log.exception("an embedding failed")
            self._drop()
            if job.vector.set_running_or_notify_cancel():
                job.vector.set_exception(error)
            return
        if vector is not None:
            self._drop()
            if job.vector.set_running_or_notify_cancel():
                job.vector.set_result(vector)

    def _piece(self, job: EmbeddingJob, streams: int) -> list[float] | None:
        """The vector, if this piece was the last."""
        if self._pooling is None:
            self._pooling = MeanPooling(self._decoder, self._attention, job.ids)
        pooling, start = self._pooling, self._pooling.done
        count = min(pooling.left, self._budget.prompt_tokens(streams, start))
        began = time.perf_counter()
        pooling.add(count)
        self._budget.observe(Load(0, count, start + count // 2), time.perf_counter() - began)
        self.tokens += count
        return None if pooling.left else pooling.vector().tolist()

    def _drop(self) -> None:
        """The first job is over; its keys and values are freed."""
        self._jobs.popleft()
        self._pooling = None


def _same_kind(attention: Attention, kv: KVTensors) -> Attention:
    return NativeAttention(kv) if isinstance(attention, NativeAttention) else CPUAttention(kv)
