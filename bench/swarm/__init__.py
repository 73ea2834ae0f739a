"""A collector that acts on a real Swarm of three nodes: one scenario per module.

A scenario is a function of a `Cluster`, which is the Swarm with an agent per node, and of a collector. It
returns figures with bounds. Integration tests run the short scenarios.
"""
