"""The network between nodes: the exchange with agents, round-trip times, and metrics."""
