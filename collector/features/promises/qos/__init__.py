"""Scheduling by promises of availability: which container starts where, and which ones stop for it."""
