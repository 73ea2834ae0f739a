"""The demo cluster: a simulated shop whose agents report to a real collector.

`tables` has machines and services; `shop` creates nodes and containers from them. `load` computes usage and
power at a time. `cluster` tracks where containers run, `agents` has the real reporter and detector of each
node, `past` writes days of history, and `run` starts everything and carries out actions.
"""
