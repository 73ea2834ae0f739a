"""Kubernetes' questions: its scheduler's extender, and the shape in which Trimaran asks for load.

In: what kube-scheduler asks about a pod, in the words of its own API (`shapes`). Out: the nodes that the pod
may go to, and how good each is, by the same policies, snapshots and ledger as every other hint. `pods` makes
a request of a pod, `scheduling` judges, `watcher` tells load, and `routes` serves them.
"""
