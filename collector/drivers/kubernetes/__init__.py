"""Kubernetes: pods evicted; nodes cordoned, emptied and switched.

In: orders for single containers and nodes. Out: evictions and changed nodes, through the official client,
which is an extra of its own (`wattpack[kubernetes]`) and is imported only when this driver is opened. `words`
reads what the API server says, pure; `server` is the conversation, in threads, as the client waits; `power`
switches nodes.

Kubernetes chooses the new place itself, and disruption budgets hold: an eviction that would break one is
refused, and so is the action. A pod would come straight back, as the scheduler knows reservations only: so
whoever gives the order has it noted first, and the scheduler extender refuses the old node for a while.
"""

from collector.drivers.kubernetes.driver import open_kubernetes

__all__ = ["open_kubernetes"]
