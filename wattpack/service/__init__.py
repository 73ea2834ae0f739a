"""Shared by the long-running commands: logging, signals, reloading, systemd."""
