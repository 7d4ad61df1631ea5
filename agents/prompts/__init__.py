"""The texts that models read, as data files beside this module."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Template

_HERE = Path(__file__).parent


@cache
def _template(name: str) -> Template:
    return Template((_HERE / f"{name}.md").read_text(encoding="utf-8").strip())


def prompt(name: str, /, **values: str) -> str:
    """The text of `NAME.md` with its `$placeholders` filled. Always UTF-8: file names and arguments need not be."""
    return _template(name).substitute(values).encode(errors="backslashreplace").decode()
