"""What rules may ask of a request, and how urgent its sender says that it is. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.errors import GatewayError
from gateway.placement.queue import Priority

PRIORITY = "x-sapwood-priority"
DEADLINE = "x-sapwood-deadline"
MAX_DEADLINE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Facts:
    model: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """The client's, looked up by lower-case names."""
    key: str | None = None
    """Name of the API key, where keys are asked for."""
    tenant: str | None = None
    """The name that the operator gave it."""
    tokens: int = 0
    turns: int = 1
    """Messages behind the shared head (tools and system messages)."""
    has_tools: bool = False
    sticky: str = ""
    """The same for all turns of a conversation, so that a weighted choice falls the same way each time."""

    @property
    def adapter(self) -> str:
        """What follows the colon in `base:adapter`; empty for a base model."""
        return self.model.partition(":")[2]

    @property
    def priority(self) -> Priority | None:
        """None where the client says nothing. GatewayError 400 for a word that is no priority."""
        told = self.headers.get(PRIORITY)
        if told is None:
            return None
        try:
            return Priority(told.strip().lower())
        except ValueError:
            raise _unusable(PRIORITY, told, " or ".join(Priority)) from None

    @property
    def deadline_s(self) -> float | None:
        """For how long the client would wait in a queue; None where it says nothing. GatewayError 400 for no number."""
        told = self.headers.get(DEADLINE)
        if told is None:
            return None
        try:
            seconds = float(told)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds <= MAX_DEADLINE_S:
            raise _unusable(DEADLINE, told, f"seconds above 0 and up to {MAX_DEADLINE_S:.0f}")
        return seconds


def _unusable(header: str, told: str, allowed: str) -> GatewayError:
    message = f"The header {header} is {told[:64]!r}; it takes {allowed}."
    return GatewayError(message, code="invalid_header", status=400, param=header)
