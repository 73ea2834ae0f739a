"""One per host: read, sample, estimate, judge, say, deliver, expose.

Data goes one way. `sources` read what the kernel and the runtime know into a `Reading` of raw
counters; `sample` turns two readings into rates, `capacity` says what they are a part of, and `power`
adds watts: that is the `picture` of one tick. From it `judging` finds bottlenecks, `saying` decides
what the collector has to know, `delivery` brings it there, and `exposition` shows it to Prometheus
with or without a collector. `observe` and `main` put this together; `loop` keeps the time. Nothing
here decides about the cluster.
"""
