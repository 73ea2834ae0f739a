"""The network between nodes: who measures whom with which key, and the round-trip times that result."""
