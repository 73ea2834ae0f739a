"""Elastic services: state, learned tables, and metrics."""
