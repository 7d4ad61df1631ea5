"""Puts every family of tools on one sandbox and one MCP server."""

from __future__ import annotations

import functools
import inspect
import logging
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from tools.compiler import CompilerTools
from tools.edit import EditTools
from tools.errors import ToolFault
from tools.family import answer
from tools.files import FileTools
from tools.git import GitTools
from tools.patching import PatchTools
from tools.search import SearchTools
from tools.shell import ShellTools
from tools.testing import CommandTests, TestingTools

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from tools.family import Family, ToolSpec
    from tools.sandbox import Sandbox


def build_server(
    sandbox: Sandbox,
    *,
    only: Collection[str] | None = None,
    test_command: str | None = None,
    checks: Mapping[str, str] | None = None,
) -> MCPServer[Any]:
    """A server with all tools, or those named in `only`, sorted by name so that a prompt never changes.

    `test_command` is what `run_tests` runs in the place of pytest; `checks` are more commands for `check_code`, by the
    glob of the files that they are for. Raises ValueError for a name that no tool has.
    """
    families: tuple[Family, ...] = (
        FileTools(sandbox),
        EditTools(sandbox),
        PatchTools(sandbox),
        SearchTools(sandbox),
        ShellTools(sandbox),
        CommandTests(sandbox, test_command) if test_command else TestingTools(sandbox),
        CompilerTools(sandbox, checks or {}),
        GitTools(sandbox),
    )
    return server_of([spec for family in families for spec in family.specs()], only)


def server_of(specs: Sequence[ToolSpec], only: Collection[str] | None = None) -> MCPServer[Any]:
    """A server with these tools, or those of them named in `only`, sorted by name. Raises ValueError as above."""
    named = {spec.function.__name__: spec for spec in specs}
    if unknown := sorted(set(only or ()) - named.keys()):
        raise ValueError(f"no such tool: {', '.join(unknown)}; there are {', '.join(sorted(named))}")
    chosen = sorted(named if only is None else only)
    return MCPServer("sapwood", tools=[_tool(named[name]) for name in dict.fromkeys(chosen)], log_level="WARNING")


class _PlainTool(Tool):
    """A tool whose refusals, bad arguments included, are short enough for a model to act on."""

    async def run(self, arguments: dict[str, Any], context: Any, convert_result: bool = False) -> Any:
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            match error.__cause__:
                case ValidationError() as cause:
                    raise ToolError(self._bad_arguments(cause)) from None
                case ToolError() as cause:
                    raise cause from None
                case None:
                    raise
                case cause:
                    raise ToolError(_defect(self.name, cause)) from None

    def _bad_arguments(self, error: ValidationError) -> str:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:4])
        required = self.parameters.get("required", ())
        names = (f"{name} (required)" if name in required else name for name in self.parameters["properties"])
        return f"bad arguments for {self.name}: {wrong}. It takes: {', '.join(names)}"


def _defect(name: str, error: BaseException) -> str:
    """One line for the log, for whoever repairs it, and one for the model, which is told no inside."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    _log.error("%s failed inside, at %s:%s: %s", name, Path(place.filename).name, place.lineno, what)
    return f"{name} failed inside; that is a defect of the tool. Try another way."


def _tool(spec: ToolSpec) -> Tool:
    tool = _PlainTool.from_function(
        _with_faults(spec.function),
        description=" ".join((inspect.getdoc(spec.function) or "").split()),
        annotations=ToolAnnotations(read_only_hint=spec.read_only, open_world_hint=False),
        structured_output=False,
    )
    tool.parameters = _without_titles(tool.parameters)
    return tool


def _with_faults(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its refusals in the form that reaches the model; other errors are withheld from it."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def asynchronous(*args: Any, **kwargs: Any) -> Any:
            try:
                return _sendable(await function(*args, **kwargs))
            except ToolFault as fault:
                raise ToolError(str(fault)) from None

        return asynchronous

    @functools.wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        try:
            return _sendable(function(*args, **kwargs))
        except ToolFault as fault:
            raise ToolError(str(fault)) from None

    return synchronous


def _sendable(result: Any) -> Any:
    """Text that JSON can carry, however deep in a result: file names need not be UTF-8."""
    match result:
        case str():
            return result.encode("utf-8", "backslashreplace").decode()
        case list():
            return [_sendable(part) for part in result]
        case dict():
            return {_sendable(name): _sendable(part) for name, part in result.items()}
        case CallToolResult():
            return answer(
                _sendable("\n".join(part.text for part in result.content if isinstance(part, TextContent))),
                _sendable(result.structured_content),
                failed=bool(result.is_error),
            )
    return result


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the titles that pydantic adds, which cost tokens and say nothing."""
    properties = {
        name: {key: value for key, value in rule.items() if key != "title"}
        for name, rule in schema.get("properties", {}).items()
    }
    return {**{key: value for key, value in schema.items() if key != "title"}, "properties": properties}
