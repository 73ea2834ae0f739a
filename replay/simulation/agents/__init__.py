"""The agents of the simulated hosts: the real detectors and reporters, and heartbeats made in bulk."""
