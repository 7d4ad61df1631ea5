"""Randomness without a state: a number that depends on a seed and a position, and on nothing else.

So a sampled token doesn't depend on which requests shared its batch, nor on how often a step was repeated.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _scramble(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every input bit changes every output bit."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def mix(seed: int, counter: int) -> int:
    """63 bits that depend on both numbers."""
    state = _scramble((seed + _GOLDEN) & _MASK)
    return _scramble((state + (counter + 1) * _GOLDEN) & _MASK) >> 1


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) with 53 random bits."""
    return (mix(seed, position) >> 10) * 2.0**-53
