import pytest

from duration import seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("45s", 45), ("2h 30m", 9000), ("1d", 86400), ("1d 2h", 93600), ("", 0)],
)
def test_seconds(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["3w", "1h 5x"])
def test_unknown_units_are_refused(text):
    with pytest.raises(ValueError, match="unknown unit"):
        seconds(text)
