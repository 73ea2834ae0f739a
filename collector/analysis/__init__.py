"""Analysis of the reports: envelopes, services, dominant resources, groups, bottlenecks.

All modules are pure; the collector runs them outside its event loop. `histograms` adds up samples,
`envelopes` computes percentiles and expected needs, `usage` keeps those of each container, and `services`
those of each service. `dominance`, `groups` and `bottlenecks` have one result each. `analysis` combines them,
and `collector.runtime.analysis` runs it periodically.
"""
