from receipt import line, receipt


def test_two_decimals():
    assert line("tea", 12.5) == "tea                12.50"


def test_thousands():
    assert line("sofa", 1234.0) == "sofa            1,234.00"


def test_rounding():
    assert line("pin", 1.996) == "pin                 2.00"


def test_a_whole_receipt():
    assert receipt([("tea", 2.5), ("cake", 3.25)]).splitlines() == [
        "tea                 2.50",
        "cake                3.25",
        "------------------------",
        "total               5.75",
    ]
