"""`move_volatile_lines`: what changes in the system prompt from turn to turn goes to the end of the conversation.

Which lines those are is seen, not guessed: a line is stable while every turn of the session has had it. The others
leave the system messages, and the newest user or tool message gets them at its end when they are new. There they stay
in all later turns, so that the conversation only grows. A line that is found out costs one break of the prefix, and
none after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import blake2b
from itertools import takewhile

from gateway.canonical.form import canonical_message
from gateway.dialects.base import Body, Json
from gateway.rewrite.base import Edit, size_of, split_head, texts_of, with_texts

LABEL = "From the system message:"
MAX_COMPARED = 1000
"""Lines between the first and the last change; two texts that differ in more are not one text with volatile lines."""

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attached:
    """Lines at the end of the message at `index` behind the head, as long as it is the one that it was."""

    index: int
    digest: bytes
    block: str


@dataclass(frozen=True, slots=True)
class SystemLines:
    stable: tuple[Lines, ...]
    """Of each text of the system messages, the lines that all turns had."""
    attached: tuple[Attached, ...] = ()

    @property
    def size(self) -> int:
        lines = sum(len(line) + 60 for text in self.stable for line in text)
        return lines + sum(len(each.block) + 120 for each in self.attached)


def move_volatile_lines(body: Body, known: SystemLines | None) -> tuple[Edit, SystemLines | None]:
    """The request with its volatile lines at the end, and what is known of the session from now on."""
    head, rest = split_head(body)
    texts = tuple(tuple(text.split("\n")) for message in head for text in texts_of(message))
    if not texts:
        return Edit(body), known
    stable = _still_stable(known.stable, texts) if known else None
    if known is None or stable is None:
        return Edit(body), SystemLines(texts)
    messages, attached = _attach(rest, known.attached, _block(texts, stable))
    if messages is None:
        return Edit(body), SystemLines(stable, known.attached)
    if stable == texts and messages == rest:
        return Edit(body), SystemLines(stable, attached)
    remaining = iter(stable)
    shortened = [with_texts(message, lambda _: "\n".join(next(remaining))) for message in head]
    moved = sum(size_of(line) + 1 for line in _volatile(texts, stable))
    return Edit({**body, "messages": [*shortened, *messages]}, max(1, moved)), SystemLines(stable, attached)


def _still_stable(before: Sequence[Lines], now: Sequence[Lines]) -> tuple[Lines, ...] | None:
    """None where this is another text than before, not the same with other lines in it."""
    if len(before) != len(now):
        return None
    common = [_common(old, new) for old, new in zip(before, now, strict=True)]
    if any(lines is None for lines in common):
        return None
    stable = tuple(lines for lines in common if lines is not None)
    return stable if 2 * _weight(stable) >= _weight(before) else None


def _common(old: Lines, new: Lines) -> Lines | None:
    """A longest common subsequence, or nearly; None where too much differs to look for one."""
    if old == new:
        return new
    front = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    old_rest, new_rest = old[front:], new[front:]
    behind = zip(reversed(old_rest), reversed(new_rest), strict=False)
    back = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], behind))
    old_middle, new_middle = old_rest[: len(old_rest) - back], new_rest[: len(new_rest) - back]
    if max(len(old_middle), len(new_middle)) > MAX_COMPARED:
        return None
    blocks = SequenceMatcher(None, old_middle, new_middle, autojunk=False).get_matching_blocks()
    middle = [line for block in blocks for line in new_middle[block.b : block.b + block.size]]
    return (*new[:front], *middle, *new[len(new) - back :])


def _weight(texts: Sequence[Lines]) -> int:
    return sum(len(line) + 1 for lines in texts for line in lines)


def _volatile(texts: Sequence[Lines], stable: Sequence[Lines]) -> Iterator[str]:
    """The lines of each text that its stable ones, which are a subsequence of it, are not."""
    for lines, kept in zip(texts, stable, strict=True):
        following = iter(kept)
        awaited = next(following, None)
        for line in lines:
            if line == awaited:
                awaited = next(following, None)
            else:
                yield line


def _block(texts: Sequence[Lines], stable: Sequence[Lines]) -> str:
    lines = [line for line in _volatile(texts, stable) if line.strip()]
    return "\n".join([LABEL, *lines]) if lines else ""


def _attach(
    messages: list[Json], attached: tuple[Attached, ...], block: str
) -> tuple[list[Json] | None, tuple[Attached, ...]]:
    """The messages with what they got in earlier turns and with the block, unless it is what was said last.

    None where the block has no place.
    """
    valid = {each.index: each for each in attached if _still_there(each, messages)}
    last = len(messages) - 1
    said = next((valid[index].block for index in sorted(valid, reverse=True) if index < last), "")
    if block and block != said:
        if not _takes_text(messages):
            return None, attached
        valid[last] = Attached(last, _digest(messages[last]), block)
    elif last in valid and block:
        del valid[last]
    whole = [_extended(message, valid[i].block) if i in valid else message for i, message in enumerate(messages)]
    others = [each for each in attached if each.index not in valid]
    return whole, (*others, *valid.values())


def _still_there(attached: Attached, messages: list[Json]) -> bool:
    return attached.index < len(messages) and _digest(messages[attached.index]) == attached.digest


def _takes_text(messages: list[Json]) -> bool:
    last = messages[-1] if messages else None
    if not isinstance(last, dict) or last.get("role") not in ("user", "tool"):
        return False
    return isinstance(last.get("content"), str | list)


def _extended(message: dict[str, Json], block: str) -> Json:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{block}"}
    return {**message, "content": [*content, {"type": "text", "text": block}]}


def _digest(message: Json) -> bytes:
    return blake2b(canonical_message(message), digest_size=16).digest()
