"""Paying with coins."""


def ways(amount, coins):
    """In how many ways `amount` can be paid with any number of each coin; nothing is paid in one way."""
    if amount == 0:
        return 1
    if amount < 0 or not coins:
        return 0
    return ways(amount - coins[0], coins) + ways(amount, coins[1:])


def fewest(amount, coins):
    """The fewest coins that pay `amount`, or None."""
    best = [0] + [None] * amount
    for value in range(1, amount + 1):
        options = [best[value - coin] for coin in coins if coin <= value and best[value - coin] is not None]
        best[value] = min(options) + 1 if options else None
    return best[amount]
