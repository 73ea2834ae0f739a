"""The network between nodes: round-trip times, and applications whose containers stay near each other."""
