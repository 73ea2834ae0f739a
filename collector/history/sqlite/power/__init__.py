"""Energy of periods, and the power of the cluster over time."""
