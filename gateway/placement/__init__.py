"""Replicas and the choice among them."""
