from unique import unique


class Counted:
    """An item that counts how often any two are compared."""

    comparisons = 0

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        Counted.comparisons += 1
        return self.value == other.value

    def __hash__(self):
        return hash(self.value)


def test_order_is_kept():
    assert unique([3, 1, 3, 2, 1]) == [3, 1, 2]


def test_nothing():
    assert unique([]) == []


def test_few_comparisons():
    Counted.comparisons = 0
    kept = unique([Counted(number % 500) for number in range(1000)])
    assert [item.value for item in kept] == list(range(500))
    assert Counted.comparisons <= 4 * 1000
