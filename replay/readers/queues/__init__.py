"""Workloads whose containers wait in a queue, the hosts that they wait for, and how long starts take."""
