"""Deployments: services that start on chosen nodes, and are free from then on.

The creator of a service adds temporary constraints and a label to it, see `hold`. The label has all that is
needed to continue, so that any collector can: it adds the other replicas, and removes constraints and label
once every task has its node. Removing a constraint restarts no task.
"""

from collections import defaultdict
from collections.abc import Mapping

from collector.common.labels import BEFORE_LABEL
from collector.drivers.interface import DriverError, Hold
from collector.drivers.swarm.client import Manager
from collector.drivers.swarm.models import SwarmService, SwarmState
from collector.drivers.swarm.specs import (
    ReplicaGroup,
    as_written,
    groups_of,
    hold_label,
    only_on,
    replicas_of,
    with_next_group,
)


class Deployer:
    """Lets services start on chosen nodes."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def hold(self, replicas: Mapping[str, int]) -> Hold:
        """Return how to create a service with this many replicas on each of these nodes."""
        cluster = await self._manager.read_state()
        by_count: defaultdict[int, list[str]] = defaultdict(list)
        for name, count in sorted(replicas.items()):
            node = cluster.node(name)
            if not (node.ready and node.active):
                raise DriverError(f"{name} takes no tasks: the node is down, paused or drained")
            by_count[count].append(node.id)
        groups = [
            ReplicaGroup(tuple(nodes), count) for count, nodes in sorted(by_count.items(), reverse=True)
        ]
        first = groups[0]
        constraints = only_on([first], [node.id for node in cluster.nodes])
        return Hold(
            replicas=first.replicas * len(first.nodes),
            constraints=tuple(constraints),
            labels={BEFORE_LABEL: hold_label(groups, constraints)},
        )

    async def advance(self, cluster: SwarmState) -> tuple[str, ...]:
        """Continue deployments, and free the services whose tasks all have a node."""
        held = [service for service in cluster.services if groups_of(service.spec)]
        return tuple(
            [what for service in held if (what := await self._advance(service, cluster)) is not None]
        )

    async def _advance(self, service: SwarmService, cluster: SwarmState) -> str | None:
        tasks = cluster.wanted_tasks(service)
        if any(task.has_no_place for task in tasks):
            await self._manager.change_service(service.id, as_written)
            return f"freed {service.name}, which Swarm could not start where it was to run"
        if len(tasks) < (replicas_of(service.spec) or 0) or not all(task.node_id for task in tasks):
            return None
        ids = [node.id for node in cluster.nodes]
        wanted = with_next_group(service.spec, ids)
        await self._manager.change_service(service.id, lambda spec: with_next_group(spec, ids))
        if groups_of(wanted):
            return None
        names = sorted(cluster.node_of[task.node_id].name for task in tasks)
        return f"deployed {service.name} on {', '.join(names)}, and removed its temporary constraints"
