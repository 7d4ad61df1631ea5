from stats import spread, summary


def test_a_list():
    assert summary([1, 2, 6]) == {"sum": 9, "count": 3, "mean": 3}


def test_a_generator():
    assert summary(n * n for n in range(1, 4)) == {"sum": 14, "count": 3, "mean": 14 / 3}


def test_lines_of_a_file(tmp_path):
    path = tmp_path / "numbers"
    path.write_text("4\n8\n")
    with path.open() as lines:
        assert summary(map(int, lines))["mean"] == 6


def test_spread():
    assert spread(iter([3, 9, 5])) == 6
