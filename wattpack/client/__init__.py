"""Questions to a collector over its API."""
