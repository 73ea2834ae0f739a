"""The mesh: peers and keys of nodes, round-trip times measured and estimated."""
