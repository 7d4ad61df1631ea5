"""The boundary around everything a model does: one root folder, one way to run a command."""

from __future__ import annotations

from tools.errors import PathFault, ToolFault
from tools.sandbox.completed import Completed
from tools.sandbox.limits import Limits
from tools.sandbox.sandbox import Sandbox

__all__ = ["Completed", "Limits", "PathFault", "Sandbox", "ToolFault"]
