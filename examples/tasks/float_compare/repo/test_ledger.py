from ledger import balanced, difference


def test_tenths_add_up():
    assert balanced([0.1, 0.2], [0.3])


def test_many_small_amounts():
    assert balanced([0.1] * 1000, [100.0])


def test_a_cent_is_a_difference():
    assert not balanced([1000000.01], [1000000.0])


def test_difference():
    assert difference([10.0], [9.7]) == 0.3
