"""Where rewrite rules meet a request: after it is known which route it takes, before its prefix is looked up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.proxy.inbound import Inbound
from gateway.proxy.plan import Plan
from gateway.rewrite.rewriter import Rewriter, Session
from gateway.routing.facts import Facts
from gateway.routing.rules import Route


class Rewriting:
    """`route` finds a request's route; its rules are the ones to apply."""

    def __init__(self, route: Callable[[Facts], Route], rewriter: Rewriter) -> None:
        self._route = route
        self._rewriter = rewriter

    def revise(self, inbound: Inbound, plan: Plan, facts: Facts) -> Inbound:
        """The request as the rules leave it; the same object where its route has none."""
        rules = self._route(facts).rewrite
        if not rules:
            return inbound
        done = self._rewriter.rewrite(inbound.parsed, rules, Session(plan.tenant, plan.session))
        revised = inbound.with_body(done.body) if done.notes else inbound
        return replace(revised, notes=done.notes, heard=done.heard)
