import pytest

from coins import fewest, ways


@pytest.mark.parametrize(("amount", "coins", "expected"), [(10, (5, 2, 1), 10), (0, (5, 2), 1), (3, (2,), 0)])
def test_ways(amount, coins, expected):
    assert ways(amount, coins) == expected


def test_one_coin_type():
    assert ways(6, (2,)) == 1


def test_fewest():
    assert fewest(11, (5, 2)) == 4
