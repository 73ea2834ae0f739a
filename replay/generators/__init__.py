"""Generated workloads, with published distributions.

In: settings and a seed. Out: a `Workload`, the same for the same seed. A generator is a type of settings, a
function, and one line in `replay.sources`.
"""
