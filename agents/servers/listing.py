"""The tools that a server offers, and what became different between two such lists, in words for the model.

The tools a model was shown are never edited. What changes later is said in a message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents.cut import cut
from agents.servers.schema import inlined

MOST_NEWS = 8000
"""Characters."""


@dataclass(frozen=True)
class Offered:
    description: str
    parameters: dict[str, Any]
    """An input schema without references."""

    def spec(self, name: str) -> dict[str, Any]:
        function = {"name": name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


Listing = Mapping[str, Offered]
"""By the server's own names."""


def listing_of(tools: Iterable[Any]) -> Listing:
    """Of two tools of one name the first counts."""
    listing: dict[str, Offered] = {}
    for tool in tools:
        description = tool.description or tool.title or ""
        listing.setdefault(tool.name, Offered(description, inlined(tool.input_schema)))
    return listing


def size(listing: Listing) -> int:
    """Characters that the tools take in a prompt, about."""
    return sum(len(json.dumps(offered.spec(name), ensure_ascii=False)) for name, offered in listing.items())


def difference(server: str, before: Listing, after: Listing, named: Callable[[str], str]) -> str:
    """Empty where there is none. `named` gives the name that the model knows a tool by."""
    lines = []
    for name in sorted(after.keys() - before.keys()):
        lines.append(f"- new: {_described(named(name), after[name])}")
    for name in sorted(before.keys() - after.keys()):
        lines.append(f"- gone: {named(name)}")
    for name in sorted(before.keys() & after.keys()):
        if _bytes(before[name]) != _bytes(after[name]):
            lines.append(f"- changed: {_described(named(name), after[name])}")
    if not lines:
        return ""
    head = f"The tools of the server {server} are not what they were. This counts, not the list at the beginning:"
    return cut("\n".join([head, *lines]), MOST_NEWS)


def _described(name: str, offered: Offered) -> str:
    takes = json.dumps(offered.parameters, ensure_ascii=False, separators=(",", ":"))
    return f"{name}: {' '.join(offered.description.split())} Its arguments: {takes}"


def _bytes(offered: Offered) -> str:
    """Two orders of keys are two texts for a model, but not a change worth telling."""
    return json.dumps([offered.description, offered.parameters], sort_keys=True)
