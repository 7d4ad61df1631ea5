"""When subscriptions renew."""

from datetime import date


def next_month(day):
    """The same day of the next month, or its last day where it is shorter."""
    return date(day.year, day.month + 1, day.day)


def renewals(start, count):
    """The first `count` renewals; the 31st comes back after a short month."""
    day, found = start, []
    for _ in range(count):
        day = next_month(day).replace(day=1)
        found.append(_clamped(day, start.day))
    return found


def _clamped(month, wanted):
    for number in range(wanted, 27, -1):
        try:
            return month.replace(day=number)
        except ValueError:
            continue
    return month.replace(day=wanted)
