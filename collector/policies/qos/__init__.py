"""Scheduling by promises of availability: who starts, where, and who is stopped for it."""
