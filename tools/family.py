"""What every family of tools shares: how a tool is declared and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp.types import CallToolResult, TextContent


@dataclass(frozen=True)
class ToolSpec:
    """One tool: its function, whose name, docstring and annotated parameters are what a model sees."""

    function: Callable[..., Any]
    read_only: bool


class Family(Protocol):
    """A class that holds a sandbox and offers tools on it."""

    def specs(self) -> Sequence[ToolSpec]: ...


def answer(text: str, data: Mapping[str, Any] | None = None, *, failed: bool = False) -> CallToolResult:
    """A result with text for the model and, for programs, the same facts as data."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=dict(data) if data is not None else None,
        is_error=failed,
    )
