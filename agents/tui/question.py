"""What a person is asked before a tool runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Answer(StrEnum):
    YES = "yes"
    NO = "no"
    ALWAYS = "always"


@dataclass(frozen=True)
class Question:
    name: str
    arguments: Mapping[str, Any]
    pattern: str
    """What "always" will allow from now on."""
