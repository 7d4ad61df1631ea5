"""Tracks: lists of points on a plane, in metres."""

import math
from itertools import pairwise


def length(points):
    """The way along all points."""
    return sum(math.dist(a, b) for a, b in pairwise(points))


def bounds(points):
    """The smallest and the largest corner of a box around all points."""
    xs, ys = zip(*points)
    return (min(xs), min(ys)), (max(xs), max(ys))
