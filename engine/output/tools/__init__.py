"""How a model writes tool calls: one format per file, and the choice between them."""

from __future__ import annotations

from engine.output.tools.base import ToolFormat
from engine.output.tools.fence import FenceFormat
from engine.output.tools.hermes import HermesFormat


def format_for(template: str) -> ToolFormat:
    """The format that a chat template's model was trained on; Sapwood's own where it was trained on none."""
    return HermesFormat() if "<tool_call>" in template else FenceFormat()
