"""Docker Swarm: services moved by constraints that are gone again once the move is done; nodes drained.

In: orders for single containers and nodes. Out: changed specs of services and nodes at a manager. `words`
reads what a manager says, `specs` writes what it is told, both pure; `manager` is the conversation; `moving`
and `power` are the two things that take a while, step by step.

Swarm has no move of a single task. What it has: an update that changes nothing but constraints restarts only
the tasks whose node no longer fits, and lifting a constraint restarts none (seen with 20.10). So a move is an
update that leaves no node to choose but the target and those where the other replicas are, and then, when all
is well, a second one that leaves the service's spec as the user wrote it.
"""

from collector.drivers.swarm.driver import open_swarm

__all__ = ["open_swarm"]
