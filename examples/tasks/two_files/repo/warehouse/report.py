"""The stock as text."""


def lines(stock):
    return [f"{item['qty']:>4} {item['name']}" for item in stock.items()]


def is_empty(stock):
    return not any(item["qty"] for item in stock.items())
