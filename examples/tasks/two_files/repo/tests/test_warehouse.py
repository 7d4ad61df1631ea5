import pytest

from warehouse.report import is_empty, lines
from warehouse.stock import OutOfStock, Stock


@pytest.fixture
def stock():
    stock = Stock()
    stock.add("screw", 100)
    stock.add("nail", 20)
    stock.add("screw", 5)
    return stock


def test_lines(stock):
    assert lines(stock) == ["  20 nail", " 105 screw"]


def test_taking_all(stock):
    stock.take("nail", 20)
    stock.take("screw", 105)
    assert is_empty(stock)


def test_taking_too_many(stock):
    with pytest.raises(OutOfStock):
        stock.take("nail", 21)
    assert stock.items()[0]["quantity"] == 20


def test_taking_some(stock):
    stock.take("nail", 1)
    assert lines(stock)[0] == "  19 nail"
