"""Replay: runs the live policies on traces, or on a cluster's own history.

In: a scenario (hosts with capacities and power curves, containers with their usage over time) and the names
of policies. Out: energy, node hours, moves, refusals and overload per policy, as numbers and as a page.
"""
