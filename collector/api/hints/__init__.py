"""Hints: where a container or an application should go, rebalancing, and the power of more load."""
