"""Which calls may run: what a person allowed, now or once and for all, is asked here before a tool starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agents.session import Session
from agents.state import Call


class Refusal(Exception):
    """A person does not want this call; the text is for the model."""


class Gate(Protocol):
    async def admit(self, call: Call, arguments: Mapping[str, Any], session: Session) -> bool:
        """True to run it; False when a person must be asked and none is there. Raises Refusal."""
        ...


class Open:
    """Everything may run: the sandbox is the limit."""

    async def admit(self, call: Call, arguments: Mapping[str, Any], session: Session) -> bool:
        return True
