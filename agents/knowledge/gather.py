"""The knowledge of a repository as text, built once for a session.

The parts go from the most stable to the most volatile: a session that begins with the same files shares the prefix up
to the first thing that differs.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.knowledge.budget import Budget
from agents.knowledge.instructions import read_instructions
from agents.knowledge.listing import Listing, list_files
from agents.knowledge.now import describe_now
from agents.knowledge.outline import outline, shown
from agents.knowledge.rank import rank
from agents.knowledge.scan import scan
from agents.prompts import prompt


@dataclass(frozen=True)
class Knowledge:
    """Sections of a first user message; an empty one has nothing to say."""

    instructions: str
    map: str
    now: str

    @property
    def text(self) -> str:
        return "\n\n".join(part for part in (self.instructions, self.map, self.now) if part)


def gather(repo: Path, budget: Budget | None = None, today: datetime.date | None = None) -> Knowledge:
    """Never fails: what cannot be read is left out."""
    budget = budget or Budget()
    repo = repo.resolve()
    listing = list_files(repo)
    return Knowledge(
        _instructions(repo, listing, budget.instruction_bytes),
        _map(repo, listing, budget),
        describe_now(repo, today or datetime.date.today(), budget.dirty_files),
    )


def _instructions(repo: Path, listing: Listing, room: int) -> str:
    found, left = read_instructions(repo, (file.path for file in listing.files), room)
    if not found and not left:
        return ""
    parts = [prompt("knowledge_instructions")]
    for each in found:
        cut = f" ({each.left_out} bytes more; read the file)" if each.left_out else ""
        parts.append(f"{shown(each.path)}{cut}:\n{quoted(each.text)}")
    if left:
        parts.append(f"Read these when you work in their folders: {_named(left)}")
    return "\n\n".join(parts)


def _map(repo: Path, listing: Listing, budget: Budget) -> str:
    found = scan(repo, listing.files, budget.source_bytes, budget.seconds)
    names = [file.path for file in listing.files]
    text = outline(found.tags, rank(found.tags), names, budget.map_tokens)
    if not text:
        return ""
    notes = [prompt("knowledge_map")]
    if found.left_out:
        notes.append(f"{found.left_out} source files were too many or too large to look into.")
    if not listing.is_whole:
        notes.append(f"Only the first {len(names)} files were looked at.")
    return " ".join(notes) + "\n" + quoted(text)


def quoted(text: str) -> str:
    """The text in a fence that nothing in it can close."""
    fence = "`" * max(4, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _named(paths: Sequence[str], most: int = 20) -> str:
    names = ", ".join(map(shown, paths[:most]))
    return names + (f" and {len(paths) - most} more" if len(paths) > most else "")
