"""The scheduler: each step lets `computed` catch up with `known` under one token budget.

Chunked prefill, cache hits, decode, drafts and forced tokens are the same case. The scheduler owns the requests'
states and their leases; it knows no model and no clock.

What holds at every step, and bounds all waiting (tests/engine/schedule/test_progress.py):

- `running` is in the order of first admission, and so are the retracted, who stand at the head of `waiting`: only
  the youngest is retracted, and nobody is admitted before those who ran already.
- Only the youngest running request can be in the middle of its prompt, since nobody is admitted behind one that took
  all the tokens that a step has for prompts. So streams come first in a step, and prompts one after the other.
- The oldest running request computes at least one token in every step and is never retracted. So a step is never
  empty, and any mix ends after at most as many steps as its requests would take one after the other.
- Nobody who comes later than `context / AGEING` steps after a request is admitted before it.
"""

from __future__ import annotations

import itertools
from collections import deque

from engine.cache.lease import Lease
from engine.cache.manager import KVCache
from engine.draft.drafter import Drafter
from engine.draft.memory import DraftMemory
from engine.schedule.admission import admission_score, waits_for_sibling
from engine.schedule.budget import StepBudget
from engine.schedule.headroom import Headroom
from engine.schedule.request import Finish, Request, State
from engine.schedule.step import StepPlan, Work, load_of

PUBLISH_EVERY = 64
"""Generated tokens are published to the tree in runs of this size, so that private tails stay short."""

DRAFT_ROWS = 32
"""Drafted tokens in a step, shared evenly by the running requests: with many, the step is full without them."""

SCORED = 64
"""How many of the waiting requests are compared for admission in a step."""


class Scheduler:
    """`plan` a step, compute it, then `advance` over it; `retire` what has ended."""

    def __init__(
        self,
        cache: KVCache,
        *,
        step_tokens: int,
        max_running: int,
        step_seconds: float = 0.0,
        drafts: DraftMemory | None = None,
    ) -> None:
        self.cache = cache
        self.drafts = drafts
        self.budget = StepBudget(step_tokens, step_seconds)
        self.headroom = Headroom()
        self.max_running = max_running
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.retractions = 0
        self._steps = 0
        self._orders = itertools.count()

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    def submit(self, request: Request) -> None:
        request.submitted = self._steps
        self.waiting.append(request)
        if self.drafts is not None:
            request.drafter = Drafter(self.drafts, request.namespace, request.prompt)

    def abort(self, request: Request) -> None:
        """Only a mark: the memory is freed at the next fence, when no step is using it."""
        if request.state is not State.FINISHED:
            request.state = State.ABORTED

    def fence(self) -> list[Request]:
        """Between two steps: end what was aborted, and return it."""
        gone = [request for request in (*self.waiting, *self.running) if request.state is State.ABORTED]
        for request in gone:
            self.retire(request, Finish.ABORT)
        return gone

    def plan(self) -> list[Work]:
        """The next step: those who run, oldest first, then those of the waiting who fit."""
        self._steps += 1
        retractions = self.retractions
        step = StepPlan(self.budget.step_tokens)
        for request in list(self.running):
            if request.state is State.RUNNING and step.left:
                self._continue(request, step)
        if retractions == self.retractions:
            self._admit(step)
        else:
            self.headroom.retracted()
        return step.works

    def advance(self, works: list[Work]) -> None:
        """The step is computed: move the counters, and publish finished chunks for others to share."""
        for work in works:
            request = work.request
            assert request.lease is not None
            request.computed += work.count
            request.lease.advance(work.count)
            if work.of_prompt or request.computed - request.lease.node.end >= PUBLISH_EVERY:
                request.lease.commit(request.known[: request.computed])

    def took(self, works: list[Work], seconds: float) -> None:
        """How long the step took in all: later ones are measured out by it."""
        self.budget.observe(load_of(works), seconds)

    def confirm(self, request: Request) -> None:
        """The token just accepted had been drafted: it is computed already."""
        assert request.lease is not None
        request.computed += 1
        request.lease.advance(1)

    def retire(self, request: Request, finish: Finish) -> None:
        """The single way out. What was computed stays in the tree for the next turn."""
        if request in self.running:
            self.running.remove(request)
        elif request in self.waiting:
            self.waiting.remove(request)
        request.state, request.finish = State.FINISHED, finish
        self.headroom.ended()
        if request.lease is not None:
            request.lease.close(request.known[: request.computed])
            request.lease = None
        if self.drafts is not None:
            self.drafts.remember(request.namespace, request.output)
        if request.retain_seconds > 0:
            self.cache.retain(request.namespace, request.known[: request.computed], request.retain_seconds)

    # Those who run

    def _continue(self, request: Request, step: StepPlan) -> None:
        count = self._share(request, step)
        if count and self._make_room(request, count):
            drafts = self._draft(request, step.left - count)
            step.add(Work(request, request.computed, count, drafts))

    def _share(self, request: Request, step: StepPlan) -> int:
        """How many of its tokens are computed in this step."""
        if request.uncomputed == 1:
            return min(1, step.left)
        if step.prompt_left is None:
            streams = sum(other.uncomputed == 1 for other in self.running)
            step.prompt_left = self.budget.prompt_tokens(streams, request.computed)
        return min(request.uncomputed, step.left, step.prompt_left)

    def _draft(self, request: Request, budget: int) -> tuple[int, ...]:
        """Guesses to verify in the same step; none where others would have to give memory for them."""
        if request.drafter is None or request.uncomputed != 1:
            return ()
        left = request.max_tokens - request.generated - 1
        drafts = request.drafter.propose(min(budget, left, DRAFT_ROWS // len(self.running)))
        assert request.lease is not None
        if not drafts or not request.lease.grow(1 + len(drafts)):
            return ()
        return tuple(drafts)

    def _make_room(self, request: Request, count: int) -> bool:
        """Room for `count` tokens, retracting the youngest for it, which comes last and has no work in this step yet.

        False: `request` itself gave way.
        """
        assert request.lease is not None
        while not request.lease.grow(count):
            if len(self.running) == 1:
                raise MemoryError("a single request outgrew the KV pool")
            if self._retract_youngest() is request:
                return False
        return True

    def _retract_youngest(self) -> Request:
        """It gives its memory back and waits again, in front: never dropped, and mostly still cached."""
        request = self.running.pop()
        assert request.lease is not None
        request.lease.close(request.known[: request.computed])
        request.lease, request.computed, request.state = None, 0, State.WAITING
        self.waiting.appendleft(request)
        self.retractions += 1
        return request

    # Those who wait

    def _admit(self, step: StepPlan) -> None:
        for request, cached in self._candidates() if self._has_room(step) else []:
            if not self._has_room(step):
                break
            if not request.retracted and waits_for_sibling(request, cached, self.running):
                continue
            lease = self._lease(request)
            if lease is None:
                break
            self._start(request, lease)
            step.add(Work(request, request.computed, self._share(request, step)))

    def _has_room(self, step: StepPlan) -> bool:
        return step.left > 0 and step.prompt_left != 0 and len(self.running) < self.max_running

    def _lease(self, request: Request) -> Lease | None:
        """Memory for all its known tokens; None where it isn't there, or where those who run would soon miss it."""
        lease = self.cache.acquire(request.namespace, request.known)
        if self._affordable(request, lease) and lease.grow(len(request.known) - lease.cached):
            return lease
        lease.close()
        return None

    def _affordable(self, request: Request, lease: Lease) -> bool:
        """Asked before memory is taken, since taking it evicts. With nobody else there is nothing to leave room for."""
        if not self.running:
            return True
        leases = [(other, other.lease) for other in self.running if other.lease is not None]
        return self.headroom.wanted([*leases, (request, lease)], self.cache.page_size) <= self.cache.available

    def _start(self, request: Request, lease: Lease) -> None:
        self.waiting.remove(request)
        self.running.append(request)
        request.lease, request.state, request.computed = lease, State.RUNNING, lease.cached
        if request.order is None:
            request.order = next(self._orders)
            request.cached = lease.cached

    def _candidates(self) -> list[tuple[Request, int]]:
        """The waiting in the order of admission, each with its cached tokens: first those who ran already."""
        head = list(itertools.islice(self.waiting, SCORED))
        found = [(request, self.cache.peek(request.namespace, request.known)) for request in head]
        ran = [pair for pair in found if pair[0].retracted]
        return [*ran, *sorted(found[len(ran) :], key=self._rank)]

    def _rank(self, candidate: tuple[Request, int]) -> tuple[int, int]:
        request, cached = candidate
        return (-admission_score(cached, self._steps - request.submitted), request.number)
