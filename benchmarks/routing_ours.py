"""The gateway's own placement in the simulation: its plans, its bindings, its policies and what they learn."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from benchmarks.routing_fleet import Fleet
from benchmarks.routing_trace import BLOCK, Prompt
from gateway.affinity.bindings import Bindings
from gateway.affinity.local import LocalBindings
from gateway.config import GatewayConfig
from gateway.dialects.base import Conversation
from gateway.guard.tenant import Tenant
from gateway.placement.base import Choice, Observation, Placement, ReplicaView
from gateway.placement.load import DecayedSum
from gateway.placement.work import Work
from gateway.proxy.plan import Plan, plan_request

BYTES_PER_TOKEN = 3.3
"""Of the texts; the gateway guesses 4."""
EPOCH = "boot"
R = TypeVar("R")


def plans(prompts: Sequence[Prompt]) -> list[Plan]:
    """As the gateway makes them of conversations with a message for each block."""
    return [_plan(prompt) for prompt in prompts]


def _plan(prompt: Prompt) -> Plan:
    sizes = [BLOCK] * (len(prompt.blocks) - 1) + [prompt.tokens - BLOCK * (len(prompt.blocks) - 1)]
    messages = [
        {"role": "user", "content": f"{block:08x}".ljust(int(size * BYTES_PER_TOKEN), ".")}
        for block, size in zip(prompt.blocks, sizes, strict=True)
    ]
    conversation = Conversation("m", {}, [], messages, prompt.head, growing=not prompt.chat)
    plan = plan_request(conversation, {}, Tenant("t", b"s"))
    return replace(plan, chain=replace(plan.chain, blocks=()))


@dataclass
class Known:
    """What the gateway knows of one replica."""

    work: Work
    recent: DecayedSum
    in_flight: int = 0


@dataclass
class Sent:
    prompt: Prompt
    choice: Choice
    index: int
    at_ms: int
    prefill_s: float | None = None


class Ours:
    def __init__(self, fleet: Fleet, placement: Placement, plans: Sequence[Plan]) -> None:
        self._placement = placement
        self._plans = plans
        self._now = 0.0
        config = GatewayConfig(upstreams=("http://localhost:1",))
        local = LocalBindings(config.local_bindings, int(config.binding_ttl_s * 1000))
        self._bindings = Bindings(None, local, ttl_s=config.binding_ttl_s, budget_s=1, clock_ms=self._clock_ms)
        self._known = [Known(Work(), DecayedSum()) for _ in fleet.replicas]
        self._sent: dict[int, Sent] = {}

    def choose(self, number: int, prompt: Prompt, now: float) -> int:
        self._now = now
        plan = self._plans[number]
        found = _at_once(self._bindings.find(plan.lookup()))
        views = [self._view(index, now) for index in range(len(self._known))]
        choice = self._placement.choose(plan.view, views, found.matches, self._clock_ms())
        index = int(choice.url)
        known = self._known[index]
        known.in_flight += 1
        known.work.begin(number, choice.uncached_tokens, now)
        known.recent.add(choice.uncached_tokens, now)
        self._sent[number] = Sent(prompt, choice, index, self._clock_ms())
        return index

    def first_byte(self, number: int, now: float) -> None:
        sent = self._sent[number]
        sent.prefill_s = self._known[sent.index].work.end(number, now)
        self._bind(number, sent, None)

    def ended(self, number: int, cached: int, now: float) -> None:
        sent, plan = self._sent.pop(number), self._plans[number]
        self._known[sent.index].in_flight -= 1
        self._bind(number, sent, sent.prompt.tokens)
        seen = Observation(sent.choice, EPOCH, plan.view.tokens, sent.prompt.tokens, cached, sent.prefill_s)
        self._placement.learn(seen)

    def _bind(self, number: int, sent: Sent, tokens: int | None) -> None:
        plan = self._plans[number]
        lineage, url = plan.chain.links[-1].id, str(sent.index)
        self._bindings.bind(plan.bindings(replica=url, epoch=EPOCH, lineage=lineage, tokens=tokens, used_ms=sent.at_ms))

    def _view(self, index: int, now: float) -> ReplicaView:
        known = self._known[index]
        work, recent = known.work, known.recent.value(now)
        return ReplicaView(str(index), EPOCH, known.in_flight, work.tokens, recent, work.head_tokens, work.head_s(now))

    def _clock_ms(self) -> int:
        return round(self._now * 1000)


def _at_once(waiting: Coroutine[Any, Any, R]) -> R:
    """What a coroutine returns that never has to wait: without Redis, bindings are here."""
    try:
        waiting.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    raise AssertionError("it had to wait")
