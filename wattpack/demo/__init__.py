"""The demo cluster: a simulated shop whose agents report to a real collector.

`machines` and `services` are tables, and `shop` puts them together. `load` is what they use at a time,
`elastic` how the load of the elastic service changes and how fast it answers, `cluster` where containers run,
and `agents` are the real reporter and detector of each node. `past` writes days of history, `driver` carries
out actions, `run` joins them all.
"""
