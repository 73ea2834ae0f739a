"""Nodes that do not push: read from a Prometheus that scrapes agents, or that other collectors write to.

In: what the store answers to PromQL. Out: reports, taken in by the same way as those that agents send, so
that everything behind it (history, understanding, answers) works alike. `looking` makes the reports; `loop`
asks every few seconds, and goes on where it was after the store or the collector was away.
"""
