"""Pools of replicas, and the rules by which a request finds its pool."""
