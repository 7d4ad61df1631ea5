"""The explainer as the proxy uses it: what an answer's request has to do with those before, and what its end tells."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.canonical.explain import Comparison, PrefixBreak, Turn, compare
from gateway.canonical.explain_text import Excerpt
from gateway.observe.gap import Gap, Home, find_gap
from gateway.observe.memory import Memory, Tip
from gateway.observe.records import RequestRecord
from gateway.observe.text import printable
from gateway.proxy.plan import Plan

MAX_ROLE = 32


@dataclass(frozen=True, slots=True)
class Explained:
    """A request whose answer has begun."""

    tip: Tip
    before: Home | None
    """Where the request that it goes on from was computed."""
    expected: int
    """Tokens that the replica should hold."""


class Explainer:
    def __init__(self, memory: Memory, *, excerpts: bool = False) -> None:
        """`excerpts`: whether records may quote what was sent."""
        self._memory = memory
        self._excerpts = excerpts
        self._report_hits: set[str] = set()
        """Replicas that have reported a cached token."""

    def answered(self, record: RequestRecord, plan: Plan, epoch: str, *, succeeded: bool) -> Explained:
        """An answer begins: fill in turn and break, and remember what the replica now holds.

        `record` is placed. An answer that is an error leaves nothing in a cache.
        """
        assert record.placed is not None
        old, comparison = self._compare(plan, record.lineage)
        broken = comparison.broken
        record.turn = comparison.turn
        record.broken = _bounded(broken, self._excerpts) if broken else None
        record.lost_tokens = round(old.tokens * broken.lost_share) if old and broken else 0
        tip = Tip(plan.chain, plan.view.tokens, Home(record.placed.replica, epoch, plan.chain.spelling))
        if succeeded:
            self._memory.remember(_key(plan, record.lineage), plan.tenant, tip)
        going_on = old is not None and comparison.turn is not Turn.FIRST
        held = old.tokens * comparison.shared // old.chain.size if old and going_on else 0
        return Explained(tip, old.home if old and going_on else None, max(held, record.placed.predicted_tokens))

    def counted(self, explained: Explained, prompt_tokens: int | None, cached_tokens: int | None) -> Gap | None:
        """The engine's own counts, at the end: what is missing of the expected tokens, and why."""
        tip, home = explained.tip, explained.tip.home
        if prompt_tokens:
            tip.tokens = prompt_tokens
        if cached_tokens is None:
            return None
        if cached_tokens:
            self._report_hits.add(home.replica)
        expected = min(explained.expected, tip.tokens)
        hits = home.replica in self._report_hits
        return find_gap(expected=expected, cached=cached_tokens, before=explained.before, now=home, reports_hits=hits)

    def _compare(self, plan: Plan, lineage: str) -> tuple[Tip | None, Comparison]:
        old = self._memory.recall(_key(plan, lineage), plan.chain)
        if old is None and plan.session is None:
            old = self._memory.recall_by_opener(plan.tenant, plan.chain)
        return old, compare(old.chain, plan.chain) if old else Comparison(Turn.FIRST, 0)


def _bounded(broken: PrefixBreak, excerpts: bool) -> PrefixBreak:
    quoted = broken.excerpt if excerpts else None
    if quoted is not None:
        quoted = Excerpt(printable(quoted.before), printable(quoted.old), printable(quoted.new))
    return replace(broken, role=printable(broken.role, MAX_ROLE), excerpt=quoted)


def _key(plan: Plan, lineage: str) -> str:
    return f"{plan.tenant}/{lineage}"
