"""Figures about measurements."""


def summary(values):
    """Sum, count and mean of any iterable of numbers that has at least one."""
    total = sum(values)
    count = sum(1 for _ in values)
    return {"sum": total, "count": count, "mean": total / count}


def spread(values):
    ordered = sorted(values)
    return ordered[-1] - ordered[0]
