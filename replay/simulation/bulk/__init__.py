"""One sample of all simulated hosts, in columns, and the heartbeats that are made of it at once."""
