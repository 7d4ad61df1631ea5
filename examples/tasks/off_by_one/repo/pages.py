"""Lists in pages; pages count from 1."""


def page(items, number, size=10):
    """The items of one page; empty behind the last."""
    first = number * size
    return items[first : first + size]


def count(items, size=10):
    """How many pages there are, the last one perhaps not full."""
    return -(-len(items) // size)
