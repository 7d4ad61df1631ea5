"""Other people's servers as one `Toolbox` that lives for the session and is shared by all its branches."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from agents.servers.call import call, not_there
from agents.servers.config import ServerConfig
from agents.servers.listing import size
from agents.servers.names import Names, prefix
from agents.servers.supervisor import Patience, Supervisor
from agents.toolbox import Fault, Toolbox, ToolResult

PATIENT = Patience()
CLOSE_SECONDS = 3.0
SLOW_SECONDS = 2.0
Tell = Callable[[str], None]
TellOf = Callable[[str, str], None]


class ServerNeeded(Exception):
    """A server without which the session is not to begin could not be started; the text says why."""


class Servers:
    """The tools that the servers offered when the session began; what changed since can be called as well."""

    def __init__(
        self, configs: Sequence[ServerConfig], root: Path, progress: TellOf, news: Tell, note: Tell, patience: Patience
    ) -> None:
        self.note, self.news = note, news
        self._progress = progress
        self._names = Names()
        self._specs: list[dict[str, Any]] = []
        self.supervisors = {config.name: Supervisor(config, root, self, patience) for config in configs}

    def named(self, server: str, tool: str) -> str:
        return self._names.of(server, tool)

    def specs(self) -> list[dict[str, Any]]:
        return self._specs

    def freeze(self) -> None:
        """Names are given in the order of names, not in that of arrival, so that they are the same each time."""
        for server, supervisor in sorted(self.supervisors.items()):
            for tool, offered in sorted(supervisor.offers.listing.items()):
                self._specs.append(offered.spec(self.named(server, tool)))
            supervisor.offers.frozen = True
        self._specs.sort(key=lambda spec: str(spec["function"]["name"]))

    def has(self, name: str) -> bool:
        """Whether `name` is a tool of a server, or may be one of a server that was never up."""
        return self._names.owner(name) is not None or bool(self._silent(name))

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        for supervisor in self._silent(name):
            await supervisor.reach()
        for supervisor in self._silent(name):
            return not_there(supervisor)
        owner = self._names.owner(name)
        if owner is None:
            return ToolResult(f"There is no tool named {name!r}.", True, None, Fault.UNKNOWN)
        server, tool = owner
        return await call(self.supervisors[server], tool, arguments, partial(self._progress, name))

    def _silent(self, name: str) -> list[Supervisor]:
        """Servers that never said what they offer and that `name` may belong to: a session that is taken up again
        knows tools that this run has not seen yet.
        """
        if self._names.owner(name) is not None:
            return []
        return [
            up for server, up in self.supervisors.items() if not up.offers.listing and name.startswith(prefix(server))
        ]


class Merged:
    """Our own tools and the servers', sorted by name. Where two have the same name it is ours."""

    def __init__(self, own: Toolbox, servers: Servers) -> None:
        self._own, self._servers = own, servers

    def specs(self) -> list[dict[str, Any]]:
        specs = {spec["function"]["name"]: spec for spec in (*self._servers.specs(), *self._own.specs())}
        return [specs[name] for name in sorted(specs)]

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        if name in {spec["function"]["name"] for spec in self._own.specs()}:
            return await self._own.call(name, arguments)
        if self._servers.has(name):
            return await self._servers.call(name, arguments)
        known = ", ".join(str(spec["function"]["name"]) for spec in self.specs())
        return ToolResult(f"There is no tool named {name!r}. The tools are: {known}.", True, None, Fault.UNKNOWN)


@asynccontextmanager
async def open_servers(
    configs: Sequence[ServerConfig],
    root: Path,
    *,
    progress: TellOf,
    news: Tell,
    note: Tell,
    patience: Patience = PATIENT,
) -> AsyncIterator[Servers]:
    """Start all of them side by side and wait until each is up or has failed; those that failed are a note.

    `root` is where programs run that have no `cwd`. `progress` is told a tool's name and what it says while it runs,
    `news` what the model should know, `note` what the user should. Raises ServerNeeded. Enter and leave in one task.
    """
    for logger in ("mcp", "client"):  # the library reports what servers do wrong; it must not reach the terminal
        logging.getLogger(logger).addHandler(logging.NullHandler())
    servers = Servers(configs, root, progress, news, note, patience)
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            for supervisor in servers.supervisors.values():
                group.start_soon(supervisor.run)
            for supervisor in servers.supervisors.values():
                await _started(supervisor, note)
            servers.freeze()
            yield servers
        except Exception as error:  # raised outside, so that the group does not wrap it
            failure = error
        finally:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                async with anyio.create_task_group() as closing:
                    for supervisor in servers.supervisors.values():
                        closing.start_soon(supervisor.close)
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _started(server: Supervisor, note: Tell) -> None:
    name = server.config.name
    with anyio.move_on_after(SLOW_SECONDS) as soon:
        await server.settled()
    if soon.cancelled_caught:
        note(f"waiting for server {name}, {server.config.start_seconds:g} s at most")
        await server.settled()
    if server.client is not None:
        listing = server.offers.listing
        count = len(listing)
        tools = f"{count} tool{'' if count == 1 else 's'}, {size(listing) / 1000:.1f} kB of definitions"
        note(f"server {name}: {tools}")
    elif server.config.required:
        raise ServerNeeded(f"the server {name} is required and cannot be started: {server.trouble}")
    else:
        note(f"server {name} cannot be started: {server.trouble}. The session goes on without its tools.")
