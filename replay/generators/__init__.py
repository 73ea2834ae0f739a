"""Generated workloads, with published distributions.

In: settings and a seed. Out: a `Workload`, the same for the same seed. A generator is one module, and one
line in `replay.sources`.
"""
