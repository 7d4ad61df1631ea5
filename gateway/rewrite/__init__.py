"""Rewrite rules: changes to a request that keep its prefix stable, each only where the operator asks for it."""
