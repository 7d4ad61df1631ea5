from backoff import delays


def test_they_double():
    assert list(delays(5)) == [0.5, 1.0, 2.0, 4.0]


def test_up_to_a_limit():
    assert list(delays(5, first=10)) == [10, 20, 30, 30]


def test_another_factor():
    assert list(delays(4, first=1, factor=3)) == [1, 3, 9]


def test_one_try_waits_for_nothing():
    assert list(delays(1)) == []
