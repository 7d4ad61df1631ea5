"""The twelve tools of a coding agent, calls of them as such an agent writes them, and what they answer.

One tool, `run_command`, takes one required string: in Sapwood's own format its input is raw text, not JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

PATH: Schema = {"type": "string", "description": "Relative to the project's root."}
COUNT: Schema = {"type": "integer", "minimum": 0}
EDIT: Schema = {
    "type": "object",
    "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
    "required": ["old", "new"],
    "additionalProperties": False,
}
# Name, description, properties; those whose names begin with a question mark are optional.
_TOOLS: Sequence[tuple[str, str, Mapping[str, Schema]]] = (
    ("read_file", "Read lines of a file.", {"path": PATH, "?offset": COUNT, "?limit": COUNT}),
    (
        "edit_file",
        "Replace a text that occurs once.",
        {"path": PATH, "old": {"type": "string"}, "new": {"type": "string"}},
    ),
    ("edit_many", "Make several replacements in a file.", {"path": PATH, "edits": {"type": "array", "items": EDIT}}),
    ("write_file", "Write a whole file.", {"path": PATH, "content": {"type": "string"}}),
    ("list_files", "List a folder.", {"path": PATH, "?recursive": {"type": "boolean"}}),
    (
        "search",
        "Search the files for a regular expression.",
        {"pattern": {"type": "string"}, "path": PATH, "?ignore_case": {"type": "boolean"}, "?limit": COUNT},
    ),
    ("run_tests", "Run the tests below a path.", {"path": PATH, "?verbose": {"type": "boolean"}}),
    ("run_command", "Run a command in the project's folder.", {"command": {"type": "string"}}),
    ("type_check", "Check the types of a file.", {"path": PATH, "?strict": {"type": "boolean"}}),
    (
        "git_diff",
        "Show what has changed.",
        {"against": {"type": "string", "enum": ["index", "head", "main"]}, "?path": PATH},
    ),
    (
        "rename_symbol",
        "Rename a symbol everywhere.",
        {"path": PATH, "symbol": {"type": "string"}, "name": {"type": "string"}},
    ),
    ("finish", "Say that the task is done.", {"summary": {"type": "string"}, "success": {"type": "boolean"}}),
)

TYPICAL: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("read_file", {"path": "store/page_queue.py", "offset": 120, "limit": 40}),
    ("edit_file", {"path": "store/page_queue.py", "old": "    return total\n", "new": "    return total - 1\n"}),
    ("run_tests", {"path": "tests/test_queue.py", "verbose": True}),
    ("search", {"pattern": "def parse_\\w+", "path": "core", "ignore_case": False, "limit": 20}),
    ("list_files", {"path": "web", "recursive": True}),
    ("type_check", {"path": "core/route.py", "strict": True}),
    ("git_diff", {"against": "head", "path": "core/route.py"}),
    ("rename_symbol", {"path": "core/route.py", "symbol": "find_node", "name": "find_page"}),
    (
        "edit_many",
        {"path": "core/route.py", "edits": [{"old": "limit=10", "new": "limit=20"}, {"old": "a", "new": "b"}]},
    ),
    ("finish", {"summary": "The queue keeps its order now.", "success": True}),
)
"""Calls with arguments of the length that they have in such a session."""


def agent_tools() -> list[Schema]:
    """As a request's `tools`."""
    return [{"type": "function", "function": _function(*tool)} for tool in _TOOLS]


def _function(name: str, description: str, properties: Mapping[str, Schema]) -> Schema:
    parameters = {
        "type": "object",
        "properties": {key.removeprefix("?"): schema for key, schema in properties.items()},
        "required": [key for key in properties if not key.startswith("?")],
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "parameters": parameters}
