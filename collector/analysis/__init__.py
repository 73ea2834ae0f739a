"""What the reports mean: envelopes, dominant resources, classes of containers, availability, bottlenecks.

In: histograms, counters and tables. Out: numbers that a decision can stand on. Pure; the collector runs it
off its event loop.
"""
