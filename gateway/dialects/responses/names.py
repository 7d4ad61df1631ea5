"""One flat name for each of a client's tools, since chat completions know no namespaces.

A tool in a namespace becomes `namespace__name`. Where that is no legal function name (64 of `A-Za-z0-9_-`) or taken, it
is cut and ends in a digest of both names. So the same tool has the same name in every turn and at every gateway.
Tools outside of namespaces keep their names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from enum import Enum

MAX_NAME = 64
ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
DIGEST_CHARS = 8


class Kind(Enum):
    FUNCTION = "function"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class Origin:
    """A tool as the client knows it."""

    name: str
    namespace: str | None = None
    kind: Kind = Kind.FUNCTION


class Names:
    """Flat names and what they stand for. Tools without a namespace come first, whatever their order."""

    def __init__(self, origins: Iterable[Origin] = ()) -> None:
        self._flat: dict[Origin, str] = {}
        self._origins: dict[str, Origin] = {}
        for origin in sorted(origins, key=lambda origin: origin.namespace is not None):
            self._add(origin)

    def __contains__(self, origin: Origin) -> bool:
        return origin in self._flat

    def origins(self) -> list[Origin]:
        return list(self._flat)

    def flat(self, origin: Origin) -> str:
        """Also for tools that are not offered any more: a history may still call them."""
        return self._flat.get(origin) or flat_name(origin, ())

    def origin(self, flat: str) -> Origin:
        """The tool that the model called. A name that nobody offered is taken for a function's."""
        return self._origins.get(flat) or Origin(flat)

    def _add(self, origin: Origin) -> None:
        if origin not in self._flat:
            flat = flat_name(origin, self._origins)
            self._flat[origin] = flat
            self._origins[flat] = origin


def flat_name(origin: Origin, taken: Container[str]) -> str:
    wanted = origin.name if origin.namespace is None else f"{origin.namespace}__{origin.name}"
    legal = origin.namespace is None or (len(wanted) <= MAX_NAME and not ILLEGAL.search(wanted))
    return wanted if legal and wanted not in taken else _digested(origin, wanted)


def _digested(origin: Origin, wanted: str) -> str:
    identity = json.dumps([origin.kind.value, origin.namespace, origin.name])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:DIGEST_CHARS]
    return f"{ILLEGAL.sub('_', wanted)[: MAX_NAME - DIGEST_CHARS - 1]}_{digest}"
