"""Kubernetes' questions: kube-scheduler's extender protocol, and load for Trimaran and PEAKS."""
