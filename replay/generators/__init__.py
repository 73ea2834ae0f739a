"""Generated workloads, with published distributions.

In: settings and a seed. Out: a `Workload`, the same for the same seed. One module each, one line in
`replay.sources`.
"""
