"""How much memory an admission leaves to those who run already, so that it doesn't cost one of them its own.

Without any, a request is admitted into the last free slots and retracted as soon as another one decodes; with all
that `max_tokens` permits, hardly two would ever run together, since most end long before. So each running request
has room for its next `tokens` kept: twice as many after a step that had to retract, half as many again with each
request that ends. More would cost more in smaller batches than it saves in computing again (docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.cache.lease import Lease
from engine.schedule.request import Request

AT_LEAST, AT_MOST = 16, 512
"""Tokens kept for each running request: some steps without a retraction, and where a guess is none any more."""


class Headroom:
    """Tokens that each running request is expected to need before memory is given back."""

    def __init__(self) -> None:
        self.tokens = AT_LEAST

    def retracted(self) -> None:
        """It was too little."""
        self.tokens = min(AT_MOST, self.tokens * 2)

    def ended(self) -> None:
        self.tokens = max(AT_LEAST, self.tokens // 2)

    def wanted(self, running: Iterable[tuple[Request, Lease]], page_size: int) -> int:
        """Slots that these requests may still ask for, beyond what their leases have."""
        return sum(_missing(request, lease, self.tokens, page_size) for request, lease in running)


def _missing(request: Request, lease: Lease, tokens: int, page_size: int) -> int:
    left = request.max_tokens - request.generated
    missing = len(request.known) + min(tokens, left) - lease.allocated
    return max(0, -(-missing // page_size) * page_size)
