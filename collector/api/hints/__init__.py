"""Hints: where a container or an application should go, what to rebalance, and what more load would cost."""
