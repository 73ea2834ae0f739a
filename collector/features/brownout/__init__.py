"""Brownout: optional services stop while a node or the cluster is short, and come back afterwards.

In: the cluster, the orchestrator's services and the settings. Out: decisions for the executor. `rule` decides
and is pure; `controllers` runs it, and stores the stopped services in the history.
"""
