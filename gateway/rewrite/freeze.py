"""`freeze_tools`: the tools stand at the front of the prompt, so those of a session stay what they first were.

- A tool that comes later is appended, however the client sorts it in, and then stays there.
- A tool that the client takes away is kept. The model may call it: the client must be ready to refuse.
- Of a tool whose description alone has changed the first one stays. A changed schema counts: calls must fit it.
- A request without any tools is left so: its client wants no calls.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.dialects.base import Body, Json, as_list
from gateway.rewrite.base import Edit, moved_bytes, written
from gateway.rewrite.tools import function_of, name_of


@dataclass(frozen=True, slots=True)
class FrozenTools:
    tools: tuple[Json, ...]

    @property
    def size(self) -> int:
        return len(written(list(self.tools)))


def freeze_tools(body: Body, frozen: FrozenTools | None) -> tuple[Edit, FrozenTools | None]:
    """The request with the session's tools, and what those are from now on."""
    tools = as_list(body.get("tools"))
    told = {name_of(tool): tool for tool in tools}
    if not tools or "" in told or len(told) < len(tools):
        return Edit(body), frozen
    known = {name_of(tool): tool for tool in frozen.tools} if frozen else {}
    kept = [_settle(tool, told.get(name, tool)) for name, tool in known.items()]
    whole = [*kept, *(tool for name, tool in told.items() if name not in known)]
    if whole == tools:
        return Edit(body), FrozenTools(tuple(tools))
    return Edit({**body, "tools": whole}, max(1, moved_bytes(tools, whole))), FrozenTools(tuple(whole))


def _settle(first: Json, now: Json) -> Json:
    return first if _without_description(first) == _without_description(now) else now


def _without_description(tool: Json) -> Json:
    function = {key: value for key, value in function_of(tool).items() if key != "description"}
    return function if function_of(tool) is tool else {**tool, "function": function}
