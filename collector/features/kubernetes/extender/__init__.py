"""For Kubernetes: kube-scheduler's extender protocol, and load metrics for Trimaran and PEAKS."""
