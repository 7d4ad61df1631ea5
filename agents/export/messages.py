"""A session as the body of a chat-completions request: what its next turn would send."""

from __future__ import annotations

import json
from typing import Any

from agents.state import State


def body(state: State) -> dict[str, Any]:
    """Model, messages and tools as they were sent, reply text and arguments to the letter."""
    asked = {"model": state.model, "messages": state.messages}
    return asked | {"tools": state.tools} if state.tools else asked


def as_json(state: State) -> str:
    return json.dumps(body(state), indent=1) + "\n"
