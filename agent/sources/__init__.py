"""Reads kernel files and the container engine.

`reader` reads `host` (or a cgroup treated as the host) and `cgroups`, with `processes` for the network and
the start of containers, and returns `readings`: raw counters at one instant. `docker` follows the engine for
names and events. Nothing here compares two readings.
"""
