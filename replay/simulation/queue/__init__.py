"""Containers with promises of availability: they wait in a queue until a policy starts them.

The ledger, the snapshot and the policies are the collector's own; hosts, time and starts are simulated.
"""
