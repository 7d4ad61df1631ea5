"""The engine thread: plan → forward → sample → commit.

It alone touches the model, the KV pool and the tree. Everyone else talks to it through one inbox of calls, run
at the step fence, and receives what a step produced as one batch through `deliver`.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from engine.attention.choose import best_attention
from engine.attention.kv import KVTensors
from engine.attention.plan import Segment, plan_attention
from engine.cache.manager import KVCache
from engine.draft.memory import DraftMemory
from engine.embed import EmbeddingJob, EmbeddingQueue
from engine.model.base import Decoder
from engine.sample.masks import masks_along
from engine.sample.sampler import NOTHING_ALLOWED, Row, Sampled, forced_token, sample
from engine.schedule.request import Finish, Request, State
from engine.schedule.scheduler import Scheduler
from engine.schedule.step import Work

log = logging.getLogger("sapwood.engine")
T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """What one step produced for one request. The last event of a request carries `finish`."""

    request: Request
    text: str
    sampled: Sampled | None
    finish: Finish | None


Deliver = Callable[[list[Event]], None]


@dataclass
class Counters:
    """Totals since the start; read by the metrics from another thread, written by the engine thread only."""

    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    computed_tokens: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    forced_tokens: int = 0
    step_seconds: float = 0.0
    finished: dict[str, int] = field(default_factory=dict)


class Engine:
    """Runs requests. All public methods may be called from any thread."""

    def __init__(
        self,
        decoder: Decoder,
        *,
        kv_tokens: int,
        dtype: torch.dtype,
        page_size: int = 1,
        step_tokens: int = 512,
        step_seconds: float = 0.0,
        max_running: int = 64,
        drafts: bool = False,
        jump_forward: bool = True,
        kernels: str = "auto",
        check_every_step: bool = False,
    ) -> None:
        self.decoder = decoder
        self.cache = KVCache(kv_tokens, page_size, debug=check_every_step)
        self.scheduler = Scheduler(
            self.cache,
            step_tokens=step_tokens,
            step_seconds=step_seconds,
            max_running=max_running,
            drafts=DraftMemory() if drafts else None,
        )
        self.attention = best_attention(KVTensors(decoder.config, self.cache.capacity, dtype), kernels)
        self.embeddings = EmbeddingQueue(decoder, self.attention, self.scheduler.budget)
        self.counters = Counters()
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._deliver: Deliver = lambda events: None
        self._jump_forward = jump_forward
        self._mask_words = (decoder.config.vocab_size + 31) // 32
        self._thread: threading.Thread | None = None

    # From other threads

    def start(self, deliver: Deliver) -> None:
        """Start the engine thread; `deliver` is called on it, once per step, and must only hand over."""
        self._deliver = deliver
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the current step. Requests in progress receive nothing more."""
        self._inbox.put(None)
        if self._thread is not None:
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether steps are still being made; once the thread has died only a new process helps."""
        return self._thread is not None and self._thread.is_alive()

    def submit(self, request: Request) -> None:
        self._inbox.put(lambda: self.scheduler.submit(request))

    def abort(self, request: Request) -> None:
        self._inbox.put(lambda: self.scheduler.abort(request))

    def embed(self, ids: Sequence[int]) -> Future[list[float]]:
        """The embedding of a text of at least one token, computed between steps; cancelling the future ends that."""
        job = EmbeddingJob(ids)
        self._inbox.put(lambda: self.embeddings.add(job))
        return job.vector

    def call(self, function: Callable[[KVCache], T]) -> Future[T]:
        """Run a function of the cache between two steps."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function(self.cache))
            except Exception as error:
                future.set_exception(error)

        self._inbox.put(run)
        return future

    # On the engine thread

    def _run(self) -> None:
        with torch.inference_mode():
            while self._take_inbox():
                self._guarded_step()
                self.embeddings.advance(len(self.scheduler.running))

    def _take_inbox(self) -> bool:
        """Run what has arrived; block for it while there is nothing else to do. False: the end."""
        block = self.scheduler.idle and self.embeddings.idle
        while True:
            try:
                call = self._inbox.get(block=block)
            except queue.Empty:
                return True
            if call is None:
                return False
            call()
            block = False

    def _guarded_step(self) -> None:
        """A fault in a step must not take the server down: its requests end with an error."""
        try:
            events = self.step()
        except Exception:
            log.exception("a step failed; its requests are ended")
            events = [self._end(request, Finish.ERROR, "internal error") for request in self._unfinished()]
        if events:
            self._deliver(events)

    def step(self) -> list[Event]:
        """One step, on the caller's thread: tests drive the engine with it."""
        events = [Event(request, "", None, Finish.ABORT) for request in self.scheduler.fence()]
        for _ in events:
            self._note(Finish.ABORT)
        works = self.scheduler.plan()
        if not works:
            return events
        began = time.perf_counter()
        logits = self._forward(works)
        self.scheduler.advance(works)
        sampling = [work for work in works if work.samples]
        if sampling:
            sampled = iter(self._sample(sampling, logits))
            for work in sampling:
                events += self._verify(work, [next(sampled) for _ in range(1 + len(work.drafts))])
        seconds = time.perf_counter() - began
        self.scheduler.took(works, seconds)
        self._count(works, seconds)
        return events

    def _forward(self, works: list[Work]) -> torch.Tensor:
        """Logits after the last known token and after each draft, for the works that sample, in their order."""
        ids = [token for work in works for token in _tokens(work)]
        positions = [p for work in works for p in range(work.start, work.start + work.total)]
        ends: list[int] = []
        total = 0
        for work in works:
            total += work.total
            if work.samples:
                ends += range(total - 1 - len(work.drafts), total)
        step = self.attention.step(plan_attention([_segment(work) for work in works]))
        tokens, places, rows = (torch.tensor(values, dtype=torch.int64) for values in (ids, positions, ends))
        return self.decoder.forward(tokens, places, rows, step)

    def _sample(self, works: list[Work], logits: torch.Tensor) -> list[Sampled]:
        """What follows the last known token, and what would follow each draft if it is right."""
        rows = [
            Row(
                params=work.request.sampling,
                position=len(work.request.known) + right,
                prompt_ids=work.request.prompt,
                output_ids=[*work.request.output, *work.drafts[:right]] if right else work.request.output,
                mask=mask,
            )
            for work in works
            for right, mask in enumerate(self._masks(work))
        ]
        return sample(logits, rows)

    def _verify(self, work: Work, sampled: list[Sampled]) -> list[Event]:
        """Accept tokens for as long as the drafts are what would have been sampled without them."""
        if work.request.max_tokens == 0:  # only its prompt was to be computed: see `engine.server.warm`
            return [self._end(work.request, Finish.LENGTH)]
        request, before = work.request, len(work.request.known)
        events = [self._accept(request, sampled[0])]
        for right, draft in enumerate(work.drafts):
            if request.state is not State.RUNNING or request.known[-1] != draft:
                break
            self.scheduler.confirm(request)
            events.append(self._accept(request, sampled[right + 1]))
        if request.drafter is not None:
            request.drafter.verified(len(work.drafts), len(events) - 1)
        self.counters.drafted_tokens += len(work.drafts)
        self.counters.accepted_tokens += len(events) - 1
        events += self._jump(request)
        if request.drafter is not None:
            request.drafter.append(request.known[before:])
        self.counters.generated_tokens += len(events)
        return events

    def _jump(self, request: Request) -> list[Event]:
        """Append what the grammar leaves no choice about: known tokens like any others, computed with the next step."""
        if request.grammar is None or not (self._jump_forward and request.constrained):
            return []
        events: list[Event] = []
        for token in request.grammar.forced():
            if request.state is not State.RUNNING or token in request.sampling.logit_bias:
                break
            events.append(self._accept(request, forced_token(token, request.sampling)))
        self.counters.forced_tokens += len(events)
        return events

    def _masks(self, work: Work) -> list[torch.Tensor | None]:
        """The mask at the last known token and at each draft."""
        if work.request.grammar is None or not work.request.constrained:
            return [None] * (1 + len(work.drafts))
        return masks_along(work.request.grammar, work.drafts, self._mask_words)

    def _accept(self, request: Request, sampled: Sampled) -> Event:
        """Append a sampled token and decide whether the request ends with it."""
        if request.state is not State.RUNNING:
            return Event(request, "", None, None)
        token = sampled.token
        if token == NOTHING_ALLOWED:
            return self._end(request, Finish.ERROR, "the grammar allows no token here")
        if request.generated == 0:
            self.counters.prompt_tokens += len(request.prompt)
            self.counters.cached_tokens += request.cached or 0
        request.known.append(token)
        if request.grammar is not None and request.constrained and not request.grammar.accept(token):
            return self._end(request, Finish.ERROR, "the grammar refused a sampled token")
        if token in request.stop_ids:
            return self._end(request, Finish.STOP, sampled=sampled)
        text = request.text.push(token) if request.text is not None else ""
        if request.text is not None and request.text.stopped:
            return self._end(request, Finish.STOP, sampled=sampled, text=text)
        if request.generated >= request.max_tokens:
            return self._end(request, Finish.LENGTH, sampled=sampled, text=text)
        return Event(request, text, sampled, None)

    def _end(
        self,
        request: Request,
        finish: Finish,
        error: str | None = None,
        sampled: Sampled | None = None,
        text: str = "",
    ) -> Event:
        if request.text is not None:
            text += request.text.finish()
        request.error = error
        self.scheduler.retire(request, finish)
        self._note(finish)
        return Event(request, text, sampled, finish)

    def _unfinished(self) -> list[Request]:
        return [*self.scheduler.running, *self.scheduler.waiting]

    def _note(self, finish: Finish) -> None:
        self.counters.finished[finish.value] = self.counters.finished.get(finish.value, 0) + 1

    def _count(self, works: list[Work], seconds: float) -> None:
        counters = self.counters
        counters.steps += 1
        counters.step_seconds += seconds
        counters.computed_tokens += sum(work.total for work in works)


def _segment(work: Work) -> Segment:
    lease = work.request.lease
    assert lease is not None
    return Segment(lease.slots(0, work.start), lease.slots(work.start, work.total), work.total)


def _tokens(work: Work) -> list[int]:
    return [*work.request.known[work.start : work.start + work.count], *work.drafts]
