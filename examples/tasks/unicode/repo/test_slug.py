import pytest

from slug import slug


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Hello, World!", "hello-world"),
        ("Crème brûlée", "creme-brulee"),
        ("Z\u00fcrich", "zurich"),
        ("Zu\u0308rich", "zurich"),
        ("  10 ideas — now ", "10-ideas-now"),
        ("日本", ""),
    ],
)
def test_slug(title, expected):
    assert slug(title) == expected
