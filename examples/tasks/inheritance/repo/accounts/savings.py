"""Accounts that earn interest."""

from accounts.base import Account


class SavingsAccount(Account):
    def __init__(self, owner, percent=2):
        self.owner = owner
        self.balance = 0
        self.percent = percent

    def add_interest(self):
        interest = self.balance * self.percent // 100
        self.balance += interest
        self.history.append(("interest", interest))
