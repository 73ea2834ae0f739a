"""The network between nodes: the mesh, and policies that place applications by latency."""
