"""What `GET /info` says of pools. Pure; credentials are no part of it."""

from __future__ import annotations

from typing import Any

from gateway.placement.queue import Priority
from gateway.routing.pool import ReplicaPool


def describe_pool(pool: ReplicaPool) -> dict[str, Any]:
    config, queue = pool.config, pool.line.queue
    return {
        "name": config.name,
        "kind": config.kind.value,
        "policy": config.policy.value,
        "labels": dict(config.labels),
        "dns": config.dns,
        "replicas": list(pool.members),
        "queue": {"length": queue.limit, **{priority.value: queue.waiting(priority) for priority in Priority}},
    }
