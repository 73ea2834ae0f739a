"""The agent: one per host. It reads, samples, estimates, reports, delivers and exposes.

Data flows one way. `sources` read kernel files and the container engine into a `Reading` of raw counters;
`sampling` turns two readings into a `NodeSample` with rates, capacities and power. From it, `bottlenecks`
opens and closes alerts, `reporting` decides what the collector needs, `delivery` sends it, and `exposition`
serves `/metrics`, with or without a collector. Decisions about the cluster are the collector's.
"""
