"""Docker Swarm: services move by temporary constraints; nodes are drained.

`models` parses the managers' responses, `views` converts them, and `specs` changes service specs, all pure;
`client` sends requests and waits; `moves`, `parking` and `scaling` are the parts of the driver for actions
that take several steps; `driver` joins them, switches nodes and deploys services.

Swarm cannot move a single task. But an update that changes only constraints restarts just the tasks whose
node no longer matches, and removing a constraint restarts none (tested with 20.10). So a move is an update
that leaves only the target and the nodes of the other replicas, and then a second one that restores the
user's spec.
"""
