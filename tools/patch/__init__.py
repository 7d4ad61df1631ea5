"""Patches as models write them: read in two spellings, applied to text. No files, no sandbox."""

from __future__ import annotations

from tools.patch.apply import apply
from tools.patch.model import Action, FilePatch, Hunk
from tools.patch.parse import parse

__all__ = ["Action", "FilePatch", "Hunk", "apply", "parse"]
