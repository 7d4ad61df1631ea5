"""Prices of a shopping cart, in cents."""

FREE_SHIPPING_FROM = 5000


def total(lines):
    """Sum of (unit price, quantity) lines."""
    return sum(price * quantity for price, quantity in lines)


def discounted(cents, percent):
    """The price after a discount, rounded to whole cents."""
    return round(cents - cents * percent / 100)


def ships_free(cents):
    return cents >= FREE_SHIPPING_FROM
