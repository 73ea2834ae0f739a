"""Promises of availability: the list, and the metrics."""
