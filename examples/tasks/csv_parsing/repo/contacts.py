"""Contacts from a CSV file with a header line."""


def load(text):
    """One dict for each row, keys from the header."""
    header, *rows = text.splitlines()
    names = header.split(",")
    return [dict(zip(names, row.split(","))) for row in rows]


def emails(contacts):
    return sorted(contact["email"] for contact in contacts)
