"""Which definitions matter most: those that many files which themselves matter refer to.

PageRank over files (a file passes its weight on to the files whose names it uses), then the weight that each file
passes on is credited to the names that it used. Nothing depends on a task, so every session gets the same order.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agents.knowledge.tags import Definition, FileTags

DAMPING, ROUNDS = 0.85, 20
AMBIGUOUS = 8
"""A name that more files define than this says nothing about any of them."""
COMMON = 12
"""A member that more files use than this is most likely one of the language's own types (`get`, `append`)."""
_TEST_WEIGHT, _PRIVATE_WEIGHT, _MEMBER_WEIGHT = 0.3, 0.5, 0.1
_SHARE_OF_FILE = 0.02
"""Of a file's own weight, shared by its public definitions: members of what matters matter."""


@dataclass(frozen=True)
class Ranked:
    path: str
    definition: Definition
    score: float


@dataclass(frozen=True)
class _Use:
    """One file uses a name that another one defines."""

    user: int
    definer: int
    name: str
    weight: float


def rank(files: Sequence[FileTags]) -> list[Ranked]:
    """All definitions but tests', best first; scopes are not ranked. Equal scores are in the order of the files."""
    uses = list(_uses(files))
    weights = _page_rank(len(files), uses)
    given = _given(len(files), uses)
    credit: defaultdict[tuple[int, str], float] = defaultdict(float)
    for use in uses:
        credit[use.definer, use.name] += weights[use.user] * use.weight / given[use.user]
    ranked = [
        Ranked(tags.path, each, credit[at, each.name] + _own(each, tags) * weights[at])
        for at, tags in enumerate(files)
        if not tags.is_test
        for each in tags.definitions
        if not each.is_scope
    ]
    return sorted(ranked, key=lambda each: (-each.score, each.path, each.definition.line))


def _own(definition: Definition, tags: FileTags) -> float:
    is_private = definition.name.startswith("_") and not definition.name.endswith("__")
    return _SHARE_OF_FILE * (_PRIVATE_WEIGHT if is_private else 1.0) / (1 + definition.depth) / len(tags.definitions)


def _uses(files: Sequence[FileTags]) -> Iterable[_Use]:
    definers: defaultdict[str, list[int]] = defaultdict(list)
    for at, tags in enumerate(files):
        for name in sorted({each.name for each in tags.definitions if not each.is_scope}):
            definers[name].append(at)
    users = Counter(name for tags in files for name in tags.members)
    common = {name for name, count in users.items() if count > COMMON}
    for user, tags in enumerate(files):
        for name, weight in sorted(_weights(tags, common).items()):
            known = definers.get(name, ())
            if known and user not in known and len(known) <= AMBIGUOUS:
                yield from (_Use(user, definer, name, weight / len(known)) for definer in known)


def _weights(tags: FileTags, common: Collection[str]) -> Mapping[str, float]:
    """How much a file's use of each name counts."""
    weights = {name: math.sqrt(count) * _trust(name, tags) for name, count in tags.names.items()}
    for name, count in tags.members.items():
        if name not in common:
            weights[name] = weights.get(name, 0.0) + _MEMBER_WEIGHT * math.sqrt(count) * _trust(name, tags)
    return weights


def _trust(name: str, tags: FileTags) -> float:
    return (_TEST_WEIGHT if tags.is_test else 1.0) * (_PRIVATE_WEIGHT if name.startswith("_") else 1.0)


def _given(count: int, uses: Iterable[_Use]) -> list[float]:
    """What each file gives in all."""
    given = [0.0] * count
    for use in uses:
        given[use.user] += use.weight
    return given


def _page_rank(count: int, uses: Sequence[_Use]) -> list[float]:
    if not count:
        return []
    edges: defaultdict[tuple[int, int], float] = defaultdict(float)
    for use in uses:
        edges[use.user, use.definer] += use.weight
    given = _given(count, uses)
    shares = [(user, definer, weight / given[user]) for (user, definer), weight in edges.items()]
    weights = [1 / count] * count
    for _ in range(ROUNDS):
        idle = sum(weight for weight, gives in zip(weights, given, strict=True) if not gives)
        fresh = [(1 - DAMPING + DAMPING * idle) / count] * count
        for user, definer, share in shares:
            fresh[definer] += DAMPING * weights[user] * share
        weights = fresh
    return weights
