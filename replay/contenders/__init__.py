"""Contenders: policies to compare with, which nobody would choose for a cluster.

Baselines, the rules of other schedulers, and the algorithms that papers compare theirs with. They have the
interfaces of the collector's policies, and a replay gives them the same figures. `table` joins both.
"""
