"""Analysis of the reports: envelopes, dominant resources, groups, availability, bottlenecks.

All modules are pure; the collector runs them outside its event loop. `histograms` adds up samples,
`envelopes` computes percentiles and expected needs, and `services` does so for all containers of a service.
`dominance`, `groups`, `availability` and `bottlenecks` have one result each. `analysis` combines them, and
`collector.jobs.analysis` runs it periodically.
"""
