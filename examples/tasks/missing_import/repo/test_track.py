from track import bounds, length

SQUARE = [(0, 0), (3, 4), (3, 10)]


def test_length():
    assert length(SQUARE) == 11


def test_a_single_point_has_no_length():
    assert length([(1, 1)]) == 0


def test_bounds():
    assert bounds(SQUARE) == ((0, 0), (3, 10))
