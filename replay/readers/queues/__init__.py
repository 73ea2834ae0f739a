"""Workloads whose containers wait in a queue, their hosts, and their start-up times."""
