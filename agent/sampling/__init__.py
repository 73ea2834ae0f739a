"""From counters to a NodeSample: ticker, rates, capacities and power.

Readings of `agent.sources` come in; one `NodeSample` per tick goes out.
"""
