"""The stock as text."""


def lines(stock):
    return [f"{item['quantity']:>4} {item['name']}" for item in stock.items()]


def is_empty(stock):
    return not any(item["quantity"] for item in stock.items())
