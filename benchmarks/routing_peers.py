"""Rules of other routers, written anew from what they publish, with their defaults. They rank mechanisms; they do not
measure products. Rules marked exact see the replicas' caches and queues as they are, which no router can."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from hashlib import blake2b

from benchmarks.routing_fleet import BlockCache, Fleet, SimReplica
from benchmarks.routing_trace import BLOCK, Prompt

Rule = Callable[[Prompt, float], SimReplica]
ENDLESS = 10**12
"""Tokens in a tree that forgets nothing."""


class Peer:
    """A rule as the simulation's policy. What it wants to remember it remembers when it chooses."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def choose(self, number: int, prompt: Prompt, now: float) -> int:
        return self._rule(prompt, now).index

    def first_byte(self, number: int, now: float) -> None: ...

    def ended(self, number: int, cached: int, now: float) -> None: ...


class Guessed:
    """What a router thinks that each replica holds, by where it sent prompts."""

    def __init__(self, fleet: Fleet, tokens: int = ENDLESS) -> None:
        self._caches = [BlockCache(tokens) for _ in fleet.replicas]

    def match(self, replica: SimReplica, prompt: Prompt) -> int:
        return self._caches[replica.index].match(prompt)

    def sent(self, replica: SimReplica, prompt: Prompt) -> SimReplica:
        self._caches[replica.index].insert(prompt)
        return replica


def chosen_by(fleet: Fleet, key: Callable[[SimReplica, Prompt, float], object]) -> Rule:
    """The replica with the smallest key, then the one with the least work so far."""

    def rule(prompt: Prompt, now: float) -> SimReplica:
        return min(fleet.replicas, key=lambda replica: (key(replica, prompt, now), replica.computed))

    return rule


def in_flight(replica: SimReplica) -> int:
    return len(replica.running)


def uncached(replica: SimReplica, prompt: Prompt) -> int:
    return prompt.tokens - replica.cache.match(prompt)


def random_choice(fleet: Fleet) -> Rule:
    draw = random.Random(7)
    return lambda prompt, now: draw.choice(fleet.replicas)


def power_of_two(fleet: Fleet) -> Rule:
    draw = random.Random(7)
    return lambda prompt, now: min(draw.sample(fleet.replicas, 2), key=in_flight)


def consistent_hash(fleet: Fleet) -> Rule:
    """vllm-router: a conversation's place is a hash; here of its first block that is its own."""

    def rule(prompt: Prompt, now: float) -> SimReplica:
        own = prompt.blocks[min(1, len(prompt.blocks) - 1)]
        return max(fleet.replicas, key=lambda replica: blake2b(f"{own}/{replica.index}".encode()).digest())

    return rule


def prefix_only(fleet: Fleet) -> Rule:
    """vLLM production-stack `prefixaware`: the deepest match ever sent, whatever the load."""
    draw = random.Random(7)
    sent: dict[int, set[int]] = {}

    def rule(prompt: Prompt, now: float) -> SimReplica:
        able = set(range(len(fleet.replicas)))
        for block in prompt.blocks:
            if not sent.get(block):
                break
            able = sent[block]
        index = draw.choice(sorted(able))
        for block in prompt.blocks:
            sent.setdefault(block, set()).add(index)
        return fleet.replicas[index]

    return rule


def load_aware(fleet: Fleet) -> Rule:
    """production-stack `loadaware`, beta 1."""
    guessed = Guessed(fleet)

    def rule(prompt: Prompt, now: float) -> SimReplica:
        mean = statistics.mean(in_flight(replica) for replica in fleet.replicas)

        def score(replica: SimReplica) -> float:
            return guessed.match(replica, prompt) / prompt.tokens - (in_flight(replica) - mean) / max(1, mean)

        return guessed.sent(max(fleet.replicas, key=score), prompt)

    return rule


def cache_aware(fleet: Fleet, threshold: float = 0.3, absolute: int = 64, relative: float = 1.5) -> Rule:
    """sglang-router `cache_aware`: by load alone where that is uneven, else by prefix above a threshold."""
    newest: dict[int, SimReplica] = {}

    def rule(prompt: Prompt, now: float) -> SimReplica:
        loads = [in_flight(replica) for replica in fleet.replicas]
        uneven = max(loads) - min(loads) > absolute and max(loads) > relative * min(loads)
        count = next((n for n, block in enumerate(prompt.blocks) if block not in newest), len(prompt.blocks))
        if not uneven and count * BLOCK > threshold * prompt.tokens:
            chosen = newest[prompt.blocks[count - 1]]
        else:
            chosen = min(fleet.replicas, key=lambda replica: (in_flight(replica), replica.served))
        newest.update(dict.fromkeys(prompt.blocks, chosen))
        return chosen

    return rule


def aibrix(fleet: Fleet, absolute: int = 8, sigmas: float = 1.0) -> Rule:
    """AIBrix `prefix-cache`: the best match whose load is not far above the mean."""
    guessed = Guessed(fleet)

    def rule(prompt: Prompt, now: float) -> SimReplica:
        loads = [in_flight(replica) for replica in fleet.replicas]
        most = statistics.mean(loads) + sigmas * statistics.pstdev(loads)
        by_match = sorted(fleet.replicas, key=lambda replica: (-guessed.match(replica, prompt), in_flight(replica)))
        able = [] if max(loads) - min(loads) > absolute else [one for one in by_match if in_flight(one) <= most]
        return guessed.sent(able[0] if able else min(fleet.replicas, key=in_flight), prompt)

    return rule


def llm_d(fleet: Fleet) -> Rule:
    """llm-d: prefix 2, cache in use 1, queue 1; the prefix by 31,250 blocks of 64 tokens for each replica."""
    guessed = Guessed(fleet, 31_250 * 64)

    def rule(prompt: Prompt, now: float) -> SimReplica:
        queues = [len(replica.waiting) for replica in fleet.replicas]
        span = max(queues) - min(queues)

        def score(replica: SimReplica) -> float:
            used = min(1.0, sum(replica.running.values()) / fleet.capacity)
            queue = (max(queues) - len(replica.waiting)) / span if span else 1.0
            return 2 * guessed.match(replica, prompt) / prompt.tokens + (1 - used) + queue

        return guessed.sent(max(fleet.replicas, key=score), prompt)

    return rule


def dynamo(fleet: Fleet) -> Rule:
    """Dynamo's linear cost: prefill that is left, less the overlap, and the blocks in use for decoding."""

    def cost(replica: SimReplica, prompt: Prompt, now: float) -> int:
        return replica.waiting_tokens + uncached(replica, prompt) + sum(replica.running.values())

    return chosen_by(fleet, cost)


def lmetric(fleet: Fleet) -> Rule:
    """LMetric: prefill that is left, times the batch."""

    def cost(replica: SimReplica, prompt: Prompt, now: float) -> int:
        return (replica.waiting_tokens + uncached(replica, prompt)) * (in_flight(replica) + 1)

    return chosen_by(fleet, cost)


def longest_prefix(fleet: Fleet) -> Rule:
    return chosen_by(fleet, lambda replica, prompt, now: (uncached(replica, prompt), in_flight(replica)))


def told_seconds(fleet: Fleet) -> Rule:
    """What a router would do that is told the nominal rate, and sees queues and caches as they are."""
    rate = fleet.engine.rate

    def cost(replica: SimReplica, prompt: Prompt, now: float) -> float:
        return max(0.0, replica.busy_until - now) + uncached(replica, prompt) / rate

    return chosen_by(fleet, cost)


PEERS: Mapping[str, Callable[[Fleet], Rule]] = {
    "random": random_choice,
    "power of two, in flight": power_of_two,
    "hash of the conversation (vllm-router)": consistent_hash,
    "prefix only (production-stack)": prefix_only,
    "loadaware 1 (production-stack)": load_aware,
    "cache_aware 0.3/64/1.5 (sglang-router)": cache_aware,
    "prefix-cache 8/1 (AIBrix)": aibrix,
    "2:1:1 (llm-d)": llm_d,
    "longest prefix (exact)": longest_prefix,
    "linear cost (Dynamo, exact)": dynamo,
    "product (LMetric, exact)": lmetric,
    "seconds (told all, exact)": told_seconds,
}
