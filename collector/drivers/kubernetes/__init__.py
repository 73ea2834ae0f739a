"""Kubernetes: pods evicted, and kept from coming straight back; nodes cordoned, emptied and switched.

In: orders for single containers and nodes. Out: evictions and changed nodes, through the official client,
which is an extra of its own (`wattpack[kubernetes]`) and is imported only when this driver is opened. `words`
reads what the API server says, pure; `server` is the conversation, in threads, as the client waits; `power`
switches nodes; `evicted` remembers what was sent away from where, for the scheduler extender to refuse.

Kubernetes chooses the new place itself, and disruption budgets hold: an eviction that would break one is
refused, and so is the action.
"""

from collector.drivers.kubernetes.driver import open_kubernetes

__all__ = ["open_kubernetes"]
