from accounts.base import Account
from accounts.savings import SavingsAccount


def test_an_account():
    account = Account("ann")
    account.deposit(500)
    assert (account.balance, account.history) == (500, [("deposit", 500)])


def test_a_new_savings_account():
    account = SavingsAccount("ann")
    assert (account.owner, account.balance, account.percent, account.history) == ("ann", 0, 2, [])


def test_interest():
    account = SavingsAccount("ann", percent=5)
    account.deposit(1000)
    account.add_interest()
    assert account.balance == 1050
    assert account.history == [("deposit", 1000), ("interest", 50)]


def test_histories_are_their_own():
    first, second = SavingsAccount("ann"), SavingsAccount("bob")
    first.deposit(1)
    assert second.history == []
