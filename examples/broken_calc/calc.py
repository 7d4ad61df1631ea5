"""A few small sums. One of them is wrong; the tests know which."""


def is_even(n):
    return n % 2 == 1


def square(n):
    return n * n


def largest(numbers):
    return max(numbers)
