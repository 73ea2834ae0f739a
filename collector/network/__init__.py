"""The network between nodes: peers and keys of the mesh, and round-trip times."""
