"""Lists without repetitions."""


def unique(items):
    """Each item once, in the order of their first occurrence."""
    kept = []
    for item in items:
        if item not in kept:
            kept.append(item)
    return kept
