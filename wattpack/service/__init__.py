"""What the long-running commands share: logging, signals, reloading, systemd."""
