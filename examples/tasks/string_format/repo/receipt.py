"""Receipts as plain text, 24 characters wide."""


def line(name, amount):
    """One line: the name to the left, the amount to the right."""
    return f"{name:<14}{amount:>10}"


def receipt(items):
    body = [line(name, amount) for name, amount in items]
    total = sum(amount for _, amount in items)
    return "\n".join([*body, "-" * 24, line("total", total)])
