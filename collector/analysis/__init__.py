"""What follows from the reports: envelopes, dominant resources, groups, availability, bottlenecks.

Pure; the collector runs it off its event loop. `histograms` adds up the samples that agents counted,
`envelopes` computes percentiles and expected needs, and `services` does so for all containers of a service.
`dominance`, `groups`, `availability` and `bottlenecks` answer one question each. `analysis` combines them,
and `collector.jobs.analysis` runs it periodically.
"""
