"""Lists without repetitions."""


def unique(items):
    """Each item once, in the order of their first occurrence."""
    return list(dict.fromkeys(items))
