"""Contacts from a CSV file with a header line."""

import csv
import io


def load(text):
    """One dict for each row, keys from the header."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def emails(contacts):
    return sorted(contact["email"] for contact in contacts)
