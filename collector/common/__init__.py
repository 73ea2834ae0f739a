"""Shared by all rooms: errors, labels, quantities, liveness, periodic tasks, outages."""
