"""Keeping a conversation's prefix in its replica's cache while a tool runs."""
