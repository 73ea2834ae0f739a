"""Runs one policy through one workload, event by event; compares several."""
