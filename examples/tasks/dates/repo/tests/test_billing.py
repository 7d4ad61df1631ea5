from datetime import date

import pytest

from billing import next_month, renewals


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (date(2025, 3, 14), date(2025, 4, 14)),
        (date(2025, 12, 5), date(2026, 1, 5)),
        (date(2025, 1, 31), date(2025, 2, 28)),
        (date(2024, 1, 31), date(2024, 2, 29)),
    ],
)
def test_next_month(day, expected):
    assert next_month(day) == expected


def test_the_31st_comes_back():
    assert renewals(date(2025, 1, 31), 3) == [date(2025, 2, 28), date(2025, 3, 31), date(2025, 4, 30)]


def test_over_the_year():
    assert renewals(date(2025, 11, 3), 3)[1] == date(2026, 1, 3)
