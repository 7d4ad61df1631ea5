"""Double-entry bookkeeping, amounts in euros."""


def balanced(debits, credits):
    """Whether both sides come to the same amount, to the cent."""
    return sum(debits) == sum(credits)


def difference(debits, credits):
    return round(sum(debits) - sum(credits), 2)
