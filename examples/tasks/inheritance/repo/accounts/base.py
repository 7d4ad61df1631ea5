"""What all accounts can do."""


class Account:
    def __init__(self, owner):
        self.owner = owner
        self.balance = 0
        self.history = []

    def deposit(self, cents):
        self.balance += cents
        self.history.append(("deposit", cents))
