"""How long to wait before trying again."""


def delays(tries, first=0.5, factor=2.0, most=30.0):
    """Seconds before each further try. Each is twice the one before, up to `most`, unless `factor` says otherwise."""
    wait = first
    for _ in range(tries - 1):
        yield min(wait, most)
        wait *= factor
