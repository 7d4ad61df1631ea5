"""Token ids as keys. Slices of `array('q')` compare in C, so a long prefix costs microseconds."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

# Most mismatches come within the first tokens of a node; the steps then double.
FIRST_STEP = 64


def as_key(ids: Sequence[int]) -> array[int]:
    """`ids` as an int64 array; an array is used as it is, so that callers can convert once."""
    if isinstance(ids, array) and ids.typecode == "q":
        return ids
    return array("q", ids)


def common(key: array[int], ids: array[int], at: int, end: int) -> int:
    """How many leading tokens `key` and `ids[at:end]` share."""
    limit = min(len(key), end - at)
    done, size = 0, FIRST_STEP
    while done < limit:
        size = min(size, limit - done)
        if key[done : done + size] != ids[at + done : at + done + size]:
            return done + _first_difference(key, ids, done, at + done, size)
        done += size
        size *= 2
    return limit


def _first_difference(a: array[int], b: array[int], i: int, j: int, size: int) -> int:
    """The offset of the first difference of `a[i:i+size]` and `b[j:j+size]`, which do differ."""
    offset = 0
    while size > 1:
        half = size // 2
        left, right = i + offset, j + offset
        if a[left : left + half] == b[right : right + half]:
            offset += half
            size -= half
        else:
            size = half
    return offset
