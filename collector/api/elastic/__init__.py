"""Elastic services: their state, what was learned about them, and metrics."""
