"""Kubernetes: the driver evicts pods and switches nodes; kube-scheduler asks the extender.

`models` parses objects and `views` converts them, both pure, for the driver and the `extender`; `client` uses
the official client, an extra (`wattpack[kubernetes]`) that is imported when this driver is opened, in threads
since it blocks; `driver` acts.

Kubernetes chooses the new node itself, and refuses an eviction that would break a disruption budget. Since
the scheduler could choose the same node again, a move is noted first, and the scheduler extender refuses the
old node for a time. A pod that is stopped for more urgent ones is evicted as well: its replacement waits in
Kubernetes, and the extender keeps the room for the pod that it was made for.
"""
