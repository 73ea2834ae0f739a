"""Workloads that are made up, with the distributions that others have published.

In: settings and a seed. Out: a `Workload`, the same for the same seed. One module each, one line in
`replay.sources`.
"""
