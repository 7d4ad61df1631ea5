from cart import discounted, ships_free, total


def test_total():
    assert total([(1250, 2), (99, 3)]) == 2797


def test_a_discount_lowers_the_price():
    assert discounted(2000, 15) == 1700


def test_no_discount():
    assert discounted(1999, 0) == 1999


def test_shipping():
    assert ships_free(5000)
    assert not ships_free(4999)
