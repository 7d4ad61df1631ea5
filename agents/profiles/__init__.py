"""How a session is led, by what the model can do."""

from __future__ import annotations

from agents.profiles.base import Profile
from agents.profiles.full import Full
from agents.profiles.small import Small

SMALL_BELOW = 1e9
"""Parameters below which a model is not expected to plan."""


def by_name(name: str) -> Profile:
    return Small() if name == "small" else Full()


def guess(model: str, parameters: float | None) -> str:
    """The profile's name for a model: by its name, else by its size where that is known."""
    small = "smollm" in model.lower() or (parameters is not None and parameters < SMALL_BELOW)
    return "small" if small else "full"
