"""Which MCP servers a person wants, read from the table that other agents use too:

    {"mcpServers": {NAME: {"command": …, "args": […], "env": {…}, "cwd": …} | {"url": …, "headers": {…}}}}

Pure: the environment is handed in. Keys that only other clients know are left alone; a key that looks like a slip is
a complaint.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

START_SECONDS = 30.0
CALL_SECONDS = 600.0
_KEYS = {
    *("command", "args", "env", "cwd", "url", "headers", "type", "disabled", "enabled", "required"),
    *("startup_timeout_sec", "tool_timeout_sec"),
}
_STDIO, _HTTP = {"stdio", "local"}, {"http", "streamablehttp", "remote"}
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class BadServers(ValueError):
    """What is wrong with the table, in one line."""


@dataclass(frozen=True)
class Stdio:
    """A program that speaks MCP over its standard input and output. What may hold a secret is not in the repr."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    """None: the folder that the session is about."""


@dataclass(frozen=True)
class Http:
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The URL without what may be secret in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True)
class ServerConfig:
    name: str
    way: Stdio | Http
    start_seconds: float = START_SECONDS
    call_seconds: float = CALL_SECONDS
    required: bool = False
    """The session does not begin without it."""


def read_json(text: str, where: str, environ: Mapping[str, str], base: Path) -> list[ServerConfig]:
    """The servers of a JSON file of other agents. Raises BadServers."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadServers(f"{where} is not JSON: {error}") from None
    if not isinstance(table, dict) or "mcpServers" not in table:
        raise BadServers(f'{where} has no "mcpServers" table')
    return read_servers(table["mcpServers"], f"{where}: mcpServers", environ, base)


def read_servers(table: Any, where: str, environ: Mapping[str, str], base: Path) -> list[ServerConfig]:
    """The servers that are not disabled, sorted by name. A relative `cwd` is taken from `base`. Raises BadServers."""
    if not isinstance(table, Mapping):
        raise BadServers(f"{where} must be a table of servers, one entry for each name")
    for name in table:
        if not isinstance(name, str) or not name.strip():
            raise BadServers(f"{where}: a server needs a name")
    entries = [_Entry(f"{where}.{name}", table[name], environ, base) for name in sorted(table)]
    return [entry.read(name) for name, entry in zip(sorted(table), entries, strict=True) if entry.wanted()]


class _Entry:
    """One server's table. Every method raises BadServers with the exact place."""

    def __init__(self, where: str, table: Any, environ: Mapping[str, str], base: Path) -> None:
        self._where, self._environ, self._base = where, environ, base
        if not isinstance(table, Mapping):
            raise BadServers(f'{where} must be a table with "command" or "url"')
        self._table = table
        for key in map(str, table):
            alike = difflib.get_close_matches(key.lower(), _KEYS, 1, 0.8)
            if key not in _KEYS and alike:
                raise BadServers(f"{where}.{key} is unknown: is {alike[0]} meant?")

    def wanted(self) -> bool:
        return self._flag("enabled", True) and not self._flag("disabled", False)

    def read(self, name: str) -> ServerConfig:
        return ServerConfig(
            name,
            self._http() if self._speaks_http() else self._stdio(),
            self._seconds("startup_timeout_sec", START_SECONDS),
            self._seconds("tool_timeout_sec", CALL_SECONDS),
            self._flag("required", False),
        )

    def _speaks_http(self) -> bool:
        if ("command" in self._table) == ("url" in self._table):
            have = "both" if "url" in self._table else "neither"
            raise BadServers(f'{self._where} has {have} of "command" and "url": give one')
        http = "url" in self._table
        given = self._table.get("type")
        plain = re.sub("[-_ ]", "", str(given)).lower()
        if plain == "sse":
            raise BadServers(f"{self._where}.type is sse, which is not spoken here: give its streamable HTTP URL")
        if given is not None and plain not in (_HTTP if http else _STDIO):
            fits = '"http" for a "url"' if http else '"stdio" for a "command"'
            raise BadServers(f"{self._where}.type is {given!r}: it must be {fits}, or be left out")
        return http

    def _stdio(self) -> Stdio:
        command, cwd = self._text("command"), self._text("cwd") if "cwd" in self._table else None
        args = self._table.get("args", ())
        if isinstance(args, str) or not isinstance(args, list | tuple):
            raise BadServers(f"{self._where}.args must be a list of strings")
        words = tuple(self._expanded(f"args[{place}]", word) for place, word in enumerate(args))
        return Stdio(
            str(Path(command).expanduser()) if command.startswith("~") else command,
            words,
            self._strings("env"),
            self._base / Path(cwd).expanduser() if cwd else None,
        )

    def _http(self) -> Http:
        url = self._text("url")
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable or not url.isascii() or not url.isprintable() or " " in url:
            raise BadServers(f"{self._where}.url is not an http:// or https:// URL")
        headers = self._strings("headers")
        for key, value in headers.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", key):
                raise BadServers(f"{self._where}.headers: {key!r} is not the name of a header")
            if not (value.isascii() and value.isprintable()):
                raise BadServers(f"{self._where}.headers.{key} has characters that no header can hold")
        return Http(url, headers)

    def _text(self, key: str) -> str:
        text = self._expanded(key, self._table[key])
        if not text.strip():
            raise BadServers(f"{self._where}.{key} is empty")
        return text

    def _strings(self, key: str) -> dict[str, str]:
        table = self._table.get(key) or {}
        if not isinstance(table, Mapping):
            raise BadServers(f"{self._where}.{key} must be a table of strings")
        return {str(name): self._expanded(f"{key}.{name}", value) for name, value in table.items()}

    def _expanded(self, key: str, value: Any) -> str:
        """`value` with each ${NAME}, ${env:NAME} and ${NAME:-default} replaced; the default also stands for empty."""
        if not isinstance(value, str):
            raise BadServers(f"{self._where}.{key} must be a string, not {json.dumps(value, default=str)[:40]}")
        if "\0" in value:
            raise BadServers(f"{self._where}.{key} has a zero character in it")

        def variable(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            known = self._environ.get(name)
            if not known and default is not None:
                return default
            if known is None:
                raise BadServers(f"{self._where}.{key}: ${name} is not set; set it or write ${{{name}:-default}}")
            return known

        return _VARIABLE.sub(variable, value)

    def _flag(self, key: str, default: bool) -> bool:
        value = self._table.get(key, default)
        if not isinstance(value, bool):
            raise BadServers(f"{self._where}.{key} must be true or false")
        return value

    def _seconds(self, key: str, default: float) -> float:
        value = self._table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise BadServers(f"{self._where}.{key} must be a number of seconds above 0")
        return float(value)
