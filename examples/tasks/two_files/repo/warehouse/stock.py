"""What is in the warehouse."""


class OutOfStock(Exception):
    pass


class Stock:
    def __init__(self):
        self._items = {}

    def add(self, name, quantity):
        item = self._items.setdefault(name, {"name": name, "quantity": 0})
        item["quantity"] += quantity

    def take(self, name, quantity):
        """Remove some. OutOfStock, and nothing removed, if there are not as many."""
        self._items[name]["quantity"] -= quantity

    def items(self):
        return sorted(self._items.values(), key=lambda item: item["name"])
