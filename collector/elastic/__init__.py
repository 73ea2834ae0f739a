"""Elasticity: how many replicas a service needs, and which CPU limit each of them.

In: what a service must deliver, and what was observed. Out: a decision, and what the policy learned.
Pure: no clock, no I/O; what a policy learned is data that the caller stores.
"""
