"""What the reports mean: envelopes, dominant resources, classes of containers, availability, bottlenecks.

In: histograms, counters and tables. Out: numbers that a decision can stand on. Pure; the collector runs it
off its event loop.

`histograms` adds up what agents counted, `envelopes` makes percentiles and needs of it, and `services` does
the same for all containers of a service. `dominance`, `classes`, `availability` and `bottlenecks` answer one
question each; `understanding` asks them all, and is what `collector.jobs.analysis` runs now and then.
"""
