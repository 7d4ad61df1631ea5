"""The map as text: the best definitions that fit, under their files, in the order of the files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from agents.knowledge.budget import CHARACTERS_PER_TOKEN
from agents.knowledge.rank import Ranked
from agents.knowledge.tags import Definition, FileTags

_INDENT = "  "
_PART_FOR_OTHERS = 8


def outline(files: Sequence[FileTags], ranked: Iterable[Ranked], names: Sequence[str], tokens: int) -> str:
    """`names` are all files; those without a definition here are listed where all fit, else counted by folder."""
    room = tokens * CHARACTERS_PER_TOKEN
    chosen, left = _choose({tags.path: tags for tags in files}, ranked, room - room // _PART_FOR_OTHERS)
    lines: list[str] = []
    for path in sorted(chosen):
        lines += [shown(path), *map(_line, sorted(chosen[path], key=lambda each: (each.line, each.depth)))]
    others = [path for path in names if path not in chosen]
    return "\n".join(lines + _others(others, left + room // _PART_FOR_OTHERS))


def _others(paths: Sequence[str], room: int) -> list[str]:
    if sum(len(shown(path)) + 1 for path in paths) <= room:
        return [shown(path) for path in paths]
    counts = Counter(path.partition("/")[0] + "/" if "/" in path else "." for path in paths)
    parts = [f"{shown(folder)} {count}" for folder, count in sorted(counts.items())]
    text = "Other files, by folder: " + ", ".join(parts)
    return [text if len(text) <= room else text[: text.rfind(",", 0, room) + 1] + " …"] if room > len(parts[0]) else []


def shown(path: str) -> str:
    """A file's name on one line, whatever it holds."""
    return path if path.isprintable() else ascii(path)


def _choose(files: dict[str, FileTags], ranked: Iterable[Ranked], room: int) -> tuple[dict[str, set[Definition]], int]:
    """Definitions by file, with those that they lie in, until the room is used up; and the room that is left."""
    chosen: defaultdict[str, set[Definition]] = defaultdict(set)
    for each in ranked:
        new = _with_parents(files[each.path], each.definition) - chosen.get(each.path, set())
        cost = sum(len(_line(one)) + 1 for one in new)
        if each.path not in chosen:
            cost += len(shown(each.path)) + 1
        if cost > room:
            break
        room -= cost
        chosen[each.path] |= new
    return dict(chosen), room


def _with_parents(tags: FileTags, definition: Definition) -> set[Definition]:
    at = tags.definitions.index(definition)
    found, depth = {definition}, definition.depth
    for each in reversed(tags.definitions[:at]):
        if each.depth < depth:
            found.add(each)
            depth = each.depth
    return found


def _line(definition: Definition) -> str:
    return _INDENT * (definition.depth + 1) + "".join(c if c.isprintable() else "?" for c in definition.text)
