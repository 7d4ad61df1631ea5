"""Policies by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.config_pools import PolicyName
from gateway.placement.base import Placement
from gateway.placement.least_loaded import LeastLoadedPlacement
from gateway.placement.round_robin import RoundRobinPlacement
from gateway.placement.seconds import SecondsPlacement
from gateway.placement.session import SessionPlacement

POLICIES: Mapping[PolicyName, Callable[[float], Placement]] = {
    PolicyName.SECONDS: SecondsPlacement,
    PolicyName.SESSION: SessionPlacement,
    PolicyName.LEAST_LOADED: LeastLoadedPlacement,
    PolicyName.ROUND_ROBIN: RoundRobinPlacement,
}


def policy_named(name: PolicyName, prefill_tokens_per_s: float) -> Placement:
    """A new one, for one pool; the rate is where its learning begins."""
    return POLICIES[name](prefill_tokens_per_s)
