"""The whole cache against a dictionary: random requests under constant memory pressure."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.cache.check import all_nodes
from engine.cache.manager import KVCache
from engine.cache.tier import HostTier
from tests.examples import examples

namespaces = st.sampled_from(["a", "b"])
# Words of one token, so that prompts share beginnings and differ inside a page as well as between pages.
words = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1, 3, 15, 16, 17])), min_size=1, max_size=3)


def spell(parts):
    return [token for token, times in parts for _ in range(times)]


class CacheMachine(RuleBasedStateMachine):
    """`known` maps each open lease to the tokens of its request; `present` is what the tree should hold."""

    def __init__(self, page, capacity, clock, tensors, tier=None):
        super().__init__()
        self.page, self.clock, self.tensors, self.tier = page, clock, tensors, tier
        self.cache = KVCache(capacity, page, clock, debug=True, tier=tier)
        self.known = {}
        self.prompts = [[0]]
        self.present = set()
        self.added = set()
        self.evicted = 0

    @initialize()
    def start(self):
        assert self.cache.stats().free == self.cache.capacity

    def pick(self, data):
        return data.draw(st.sampled_from(list(self.known)))

    def prompt(self, data):
        base = data.draw(st.sampled_from(self.prompts))
        kept = len(base) if data.draw(st.booleans()) else data.draw(st.integers(0, len(base)))
        ids = base[:kept] + spell(data.draw(words))
        ids = ids[: self.cache.capacity * 2 // 3]
        self.prompts = [*self.prompts[-7:], ids]
        return ids

    def pages_of(self, namespace, ids):
        """Every whole-page prefix of `ids`."""
        return {(namespace, tuple(ids[:end])) for end in range(self.page, len(ids) + 1, self.page)}

    def publishes(self, lease, count):
        self.added = self.pages_of(lease.namespace, self.known[lease][:count])

    @precondition(lambda self: len(self.known) < 6)
    @rule(data=st.data(), namespace=namespaces)
    def acquire(self, data, namespace):
        ids = self.prompt(data)
        expected = self.pages_of(namespace, ids[:-1]) & self.present
        assert self.cache.peek(namespace, ids) == len(expected) * self.page
        lease = self.cache.acquire(namespace, ids)
        self.known[lease] = ids
        assert lease.cached == lease.committed >= len(expected) * self.page
        assert self.tier or lease.cached == len(expected) * self.page
        self.publishes(lease, lease.cached)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), share=st.sampled_from([0.3, 1.0]), publish=st.booleans())
    def prefill(self, data, share, publish):
        lease = self.pick(data)
        ids = self.known[lease]
        upto = lease.committed + int((len(ids) - lease.committed) * share)
        if self.compute(lease, ids, upto) and publish:
            self.publishes(lease, upto)
            lease.commit(ids[:upto])

    def compute(self, lease, ids, upto):
        missing = -(-max(0, upto - lease.allocated) // self.page)
        leased = {p for other, known in self.known.items() for p in self.held(other, known)}
        private = sum(other.allocated - other.node.end for other in self.known)
        possible = missing * self.page <= self.cache.capacity - private - len(leased) * self.page
        done = self.tensors.compute(lease, ids, upto)
        assert done == possible
        # Asked now, since what this evicted may be among what the rule publishes next.
        self.the_tree_holds_what_was_published_and_not_evicted()
        return done

    def held(self, lease, known):
        return self.pages_of(lease.namespace, known[: lease.node.end])

    @precondition(lambda self: self.known)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 2), min_size=1, max_size=20))
    def decode(self, data, tokens):
        lease = self.pick(data)
        for token in tokens:
            if lease.committed < len(self.known[lease]) - 1:
                break
            self.known[lease] = [*self.known[lease], token]
            if not self.compute(lease, self.known[lease], len(self.known[lease])):
                break

    @precondition(lambda self: self.known)
    @rule(data=st.data(), n=st.integers(0, 30))
    def grow(self, data, n):
        lease = self.pick(data)
        before = lease.allocated
        grown = lease.grow(n)
        assert lease.allocated >= (lease.committed + n if grown else before)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def commit(self, data):
        lease = self.pick(data)
        self.publishes(lease, lease.committed)
        lease.commit(self.known[lease][: lease.committed])

    @precondition(lambda self: self.known)
    @rule(data=st.data(), again=st.booleans())
    def finish(self, data, again):
        lease = self.pick(data)
        self.publishes(lease, lease.committed)
        ids = self.known.pop(lease)
        lease.close(ids)
        if again:
            lease.close(ids)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def abort(self, data):
        lease = self.pick(data)
        del self.known[lease]
        lease.close()
        lease.close()

    @rule(data=st.data(), namespace=namespaces, seconds=st.sampled_from([1.0, 50.0]))
    def retain(self, data, namespace, seconds):
        ids = self.prompt(data)
        expected = len(self.pages_of(namespace, ids) & self.present) * self.page
        assert self.cache.retain(namespace, ids, seconds) == expected

    @rule(data=st.data(), namespace=namespaces)
    def release(self, data, namespace):
        self.cache.release(namespace, data.draw(st.sampled_from(self.prompts)))

    @rule(data=st.data(), namespace=namespaces, session=st.just("s"), changed=st.booleans())
    def turn(self, data, namespace, session, changed):
        """A whole turn of a session; the next may continue it, go another way or get its answer back changed."""
        ids, answer = self.prompt(data), spell(data.draw(words))
        before = self.superseded()
        marked = self.cache.begin_turn(namespace, session, ids)
        assert marked == self.superseded() - before
        lease = self.cache.acquire(namespace, ids)
        self.known[lease] = [*ids, *answer]
        self.publishes(lease, lease.cached)
        self.compute(lease, self.known[lease], len(ids) + len(answer) - 1)
        self.publishes(lease, lease.committed)
        lease.close(self.known[lease])
        del self.known[lease]
        self.cache.end_turn(namespace, session, ids, answer)
        self.prompts.append([*ids, *answer[changed:]])

    def superseded(self):
        marked = [node for node in all_nodes(self.cache.radix) if node.superseded]
        assert not any(node.leases for node in marked)
        return sum(len(node) for node in marked)

    @rule(wanted=st.integers(1, 40))
    def evict(self, wanted):
        evictable = self.cache.stats().evictable
        assert self.cache._evict(wanted) == min(evictable, -(-wanted // self.page) * self.page)

    @rule()
    def clear(self):
        self.cache.clear()
        assert self.cache.stats().cached == self.cache.stats().leased

    @rule(seconds=st.sampled_from([0.5, 20.0]))
    def wait(self, seconds):
        self.clock.now += seconds

    @invariant()
    def counters_are_right(self):
        self.cache.check()
        stats = self.cache.stats()
        assert stats.free + stats.cached + stats.private == stats.capacity
        assert stats.leases == len(self.known)

    @invariant()
    def leases_read_what_was_written_for_them(self):
        for lease, ids in self.known.items():
            self.tensors.read(lease, ids)

    @invariant()
    def the_tree_holds_what_was_published_and_not_evicted(self):
        found = set()
        for node in all_nodes(self.cache.radix):
            ids = [token for step in self.cache.radix.path(node) for token in step.key]
            top = self.cache.radix.path(node)[0].parent
            slots = [slot for start, length in node.extents for slot in range(start, start + length)]
            for end, slot in enumerate(slots, node.end - len(node) + 1):
                assert self.tensors.written[slot] == (top.namespace, tuple(ids[:end]))
            found |= self.pages_of(top.namespace, ids)
        evicted = self.cache.stats().evicted_tokens
        assert found <= self.present | self.added
        assert len((self.present | self.added) - found) * self.page == evicted - self.evicted
        self.present, self.added, self.evicted = found, set(), evicted


@pytest.mark.parametrize(
    ("page", "capacity", "host"), [(1, 48, None), (16, 160, None), (1, 48, 40), (16, 160, 96), (1, 48, 400)]
)
def test_random_requests(page, capacity, host, new_clock, new_tensors, new_host_copy):
    def machine():
        tensors = new_tensors()
        tier = HostTier(host, page, new_host_copy(tensors)) if host else None
        return CacheMachine(page, capacity, new_clock(), tensors, tier)

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(150),
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
