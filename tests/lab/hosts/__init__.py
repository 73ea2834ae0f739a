"""Whole hosts: machines with systemd or with their own kernel, and links between hosts."""
