"""Promises of availability: which services have one, how it stands, and what is done to keep it."""
