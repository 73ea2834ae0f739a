"""ge-kube's integer linear program: the best placement that the greedy of `net-aware` is measured by."""
