"""The control loop: makes plans, guards them, carries them out, verifies and records."""
