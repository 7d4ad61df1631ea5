"""The scheduler: each step lets `computed` catch up with `known` under one token budget.

Chunked prefill, cache hits, decode, and later drafts and forced tokens are the same case. The scheduler owns the
requests' states and their leases; it knows no model and no clock.
"""

from __future__ import annotations

from collections import deque

from engine.cache.manager import KVCache
from engine.draft.drafter import Drafter
from engine.draft.memory import DraftMemory
from engine.schedule.admission import admission_score, waits_for_sibling
from engine.schedule.request import Finish, Request, State
from engine.schedule.step import Work

PUBLISH_EVERY = 64
"""Generated tokens are published to the tree in runs of this size, so that private tails stay short."""

DRAFT_ROWS = 32
"""Drafted tokens in a step, shared evenly by the running requests: with many, the step is full without them."""

SCORED = 64
"""How many of the waiting requests are compared for admission in a step."""


class Scheduler:
    """`plan` a step, compute it, then `advance` over it; `retire` what has ended."""

    def __init__(
        self, cache: KVCache, *, step_tokens: int, max_running: int, drafts: DraftMemory | None = None
    ) -> None:
        self.cache = cache
        self.drafts = drafts
        self.step_tokens = step_tokens
        self.max_running = max_running
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.retractions = 0

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    def submit(self, request: Request) -> None:
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
        """The next step: decodes first, then prompts in progress, then as many of the waiting as fit."""
        works: list[Work] = []
        budget = self.step_tokens
        retractions = self.retractions
        for request in sorted(self.running, key=lambda r: (r.uncomputed > 1, r.number)):
            if request.state is not State.RUNNING or budget == 0:
                continue
            count = min(request.uncomputed, budget)
            if self._make_room(request, count, works):
                works.append(Work(request, request.computed, count, self._draft(request, budget - count)))
                budget = self.step_tokens - sum(work.total for work in works)
        if retractions == self.retractions:
            self._admit(works, budget)
        return works

    def advance(self, works: list[Work]) -> None:
        """The step is computed: move the counters, and publish finished chunks for others to share."""
        for work in works:
            request = work.request
            assert request.lease is not None
            request.computed += work.count
            request.lease.advance(work.count)
            if work.count > 1 or request.computed - request.lease.node.end >= PUBLISH_EVERY:
                request.lease.commit(request.known[: request.computed])

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
        if request.lease is not None:
            request.lease.close(request.known[: request.computed])
            request.lease = None
        if self.drafts is not None:
            self.drafts.remember(request.namespace, request.output)
        if request.retain_seconds > 0:
            self.cache.retain(request.namespace, request.known[: request.computed], request.retain_seconds)

    def _draft(self, request: Request, budget: int) -> tuple[int, ...]:
        """Guesses to verify in the same step; none where a grammar decides, or where they would need memory."""
        if request.drafter is None or request.uncomputed != 1 or request.constrained:
            return ()
        left = request.max_tokens - request.generated - 1
        drafts = request.drafter.propose(min(budget, left, DRAFT_ROWS // len(self.running)))
        assert request.lease is not None
        if not drafts or not request.lease.grow(1 + len(drafts)):
            return ()
        return tuple(drafts)

    def _make_room(self, request: Request, count: int, works: list[Work]) -> bool:
        """Room for `count` tokens, retracting the youngest others for it. False: `request` itself gave way."""
        assert request.lease is not None
        while not request.lease.grow(count):
            victim = max(self.running, key=lambda r: r.number)
            if victim is request and len(self.running) == 1:
                raise MemoryError("a single request outgrew the KV pool")
            self._retract(victim)
            works[:] = [work for work in works if work.request is not victim]
            if victim is request:
                return False
        return True

    def _retract(self, request: Request) -> None:
        """Give the memory back and wait again, in front: never dropped, and mostly still cached."""
        assert request.lease is not None
        request.lease.close(request.known[: request.computed])
        request.lease, request.computed, request.state = None, 0, State.WAITING
        self.running.remove(request)
        self.waiting.appendleft(request)
        self.retractions += 1

    def _admit(self, works: list[Work], budget: int) -> None:
        for request, cached in self._candidates() if self._has_room(budget) else []:
            if not self._has_room(budget):
                break
            if waits_for_sibling(request, cached, self.running):
                continue
            lease = self.cache.acquire(request.namespace, request.known)
            if not lease.grow(len(request.known) - lease.cached):
                lease.close(None)
                break
            self._start(request, lease.cached)
            request.lease = lease
            count = min(request.uncomputed, budget)
            works.append(Work(request, request.computed, count))
            budget -= count
        for request in self.waiting:
            request.waited += 1

    def _has_room(self, budget: int) -> bool:
        return budget > 0 and len(self.running) < self.max_running

    def _start(self, request: Request, cached: int) -> None:
        self.waiting.remove(request)
        self.running.append(request)
        request.state, request.computed = State.RUNNING, cached
        if request.cached is None:
            request.cached = min(cached, len(request.prompt))

    def _candidates(self) -> list[tuple[Request, int]]:
        """The waiting in the order of admission, each with its cached tokens."""
        head = [request for request in list(self.waiting)[:SCORED] if request.state is State.WAITING]
        found = [(request, self.cache.peek(request.namespace, request.known)) for request in head]
        return sorted(found, key=lambda pair: (-admission_score(pair[1], pair[0].waited), pair[0].number))
