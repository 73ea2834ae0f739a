"""One per host: read, sample, estimate, say, expose.

Data goes one way. `cgroups`, `host` and `docker` read what the kernel and the runtime know into a
`Reading` of raw counters; `sample` turns two readings into rates; `power` adds watts; `report` says
it in the words of `wire`; `deliver` brings it to the collector, and `metrics` shows it to Prometheus
with or without one. `loop` keeps the time. Nothing here decides about the cluster.
"""
