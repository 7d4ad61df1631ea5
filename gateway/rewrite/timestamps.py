"""`freeze_timestamps`: of each date with a time of day, in system messages and in what describes tools, only the date
stays, so that the prefix holds for a day and not for a second.

A time without a date is left: there is no day to name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway.dialects.base import Body, Json
from gateway.rewrite.base import Edit, size_of, split_head, with_texts

_ZONE = (
    r"(?:\ ?(?:Z\b|(?:UTC|GMT)?[+-]\d{2}:?\d{2}\b|(?:UTC|GMT|CES?T|BST|IST|JST|[ECMP][SD]T)\b))?"
    r"(?:\ ?\[[A-Za-z]+/[A-Za-z_/]+\])?(?:\ \([A-Z][A-Za-z\ ]{2,40}\ Time\))?"
)
_CLOCK = rf"\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?(?:\s?[AaPp]\.?[Mm]\b\.?)?{_ZONE}"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATE = (
    r"\d{4}-\d{2}-\d{2}"
    r"|\d{4}/\d{1,2}/\d{1,2}"
    r"|\d{1,2}[./]\d{1,2}[./]\d{4}"
    rf"|{_MONTH}\.?\ +\d{{1,2}}(?:st|nd|rd|th)?,?\ \d{{4}}"
    rf"|\d{{1,2}}\.?\ {_MONTH}\.?\ \d{{4}}"
)
_BEHIND = re.compile(rf"(?<!\d)(?P<date>{_DATE})(?:T|,?\ (?:at\ )?){_CLOCK}")
_BETWEEN = re.compile(rf"(?P<date>\b{_MONTH}\ +\d{{1,2}})\ {_CLOCK}(?P<year>\ \d{{4}}\b)")
"""As `date` writes it: the year last."""


def freeze_timestamps(body: Body) -> Edit:
    head, rest = split_head(body)
    cut = 0

    def freeze(text: str) -> str:
        nonlocal cut
        frozen = to_the_day(text)
        cut += size_of(text) - size_of(frozen)
        return frozen

    changes: dict[str, Json] = {"messages": [*(with_texts(message, freeze) for message in head), *rest]}
    changes |= {name: _in_descriptions(body[name], freeze) for name in ("tools", "functions") if name in body}
    return Edit({**body, **changes}, cut) if cut else Edit(body)


def to_the_day(text: str) -> str:
    """Until there is no time behind a date: one may stand behind another."""
    while (frozen := _BETWEEN.sub(r"\g<date>\g<year>", _BEHIND.sub(r"\g<date>", text))) != text:
        text = frozen
    return text


def _in_descriptions(value: Json, freeze: Callable[[str], str]) -> Json:
    if isinstance(value, dict):
        return {
            key: freeze(item) if key == "description" and isinstance(item, str) else _in_descriptions(item, freeze)
            for key, item in value.items()
        }
    return [_in_descriptions(item, freeze) for item in value] if isinstance(value, list) else value
