"""Elasticity: the number of replicas of a service, and their CPU limit.

In: the target of a service, and an observation. Out: a decision, and what the policy learned.
Pure: no clock, no I/O.
"""
