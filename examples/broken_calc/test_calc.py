from calc import is_even, largest, square


def test_is_even():
    assert is_even(4) is True
    assert is_even(7) is False


def test_square():
    assert square(3) == 9


def test_largest():
    assert largest([1, 5, 2]) == 5
