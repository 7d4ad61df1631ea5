"""Durations as people write them: "2h 30m"."""


def seconds(text):
    """The length of a duration in seconds."""
    total = 0
    for part in text.split():
        amount, unit = int(part[:-1]), part[-1]
        if unit == "s":
            total += amount
        elif unit == "m":
            total += amount * 60
        elif unit == "h":
            total += amount * 3600
        else:
            raise ValueError(f"unknown unit in {part!r}")
    return total
