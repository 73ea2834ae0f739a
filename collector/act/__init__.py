"""The control loop: makes plans, guards them, carries them out by a driver, verifies and records."""
