"""Deployments: services start on chosen nodes; Swarm may move them afterwards.

The creator of a service adds temporary constraints and a label to it, see `hold`. The label contains the
state of the deployment, so that any collector can continue it: add the other replicas, and remove constraints
and label once every task has its node. Removing a constraint restarts no task.
"""

from collections import defaultdict
from collections.abc import Mapping

from collector.common.labels import BEFORE_LABEL
from collector.drivers.interface import Hold
from collector.features.swarm.client import Manager
from collector.features.swarm.models import SwarmService, SwarmState
from collector.features.swarm.specs import (
    ReplicaGroup,
    groups_of,
    hold_label,
    only_on,
    replicas_of,
    user_spec,
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
            by_count[count].append(cluster.accepting_node(name).id)
        groups = [
            ReplicaGroup(tuple(nodes), count) for count, nodes in sorted(by_count.items(), reverse=True)
        ]
        first = groups[0]
        constraints = only_on(first.nodes, [node.id for node in cluster.nodes])
        return Hold(
            replicas=first.replicas * len(first.nodes),
            constraints=tuple(constraints),
            labels={BEFORE_LABEL: hold_label(groups, constraints)},
        )

    async def advance(self, cluster: SwarmState) -> tuple[str, ...]:
        """Continue deployments; remove the temporary constraints once all tasks of a service have a node."""
        held = [service for service in cluster.services if groups_of(service.spec)]
        return tuple(
            [what for service in held if (what := await self._advance(service, cluster)) is not None]
        )

    async def _advance(self, service: SwarmService, cluster: SwarmState) -> str | None:
        tasks = cluster.wanted_tasks(service)
        if any(task.has_no_place for task in tasks):
            await self._manager.change_service(service.id, user_spec)
            return (
                f"removed the temporary constraints of {service.name}:"
                " Swarm could not start it on the chosen nodes"
            )
        if len(tasks) < (replicas_of(service.spec) or 0) or not all(task.node_id for task in tasks):
            return None
        ids = [node.id for node in cluster.nodes]
        wanted = with_next_group(service.spec, ids)
        await self._manager.change_service(service.id, lambda spec: with_next_group(spec, ids))
        if groups_of(wanted):
            return None
        names = sorted(cluster.node_of[task.node_id].name for task in tasks)
        return f"deployed {service.name} on {', '.join(names)}, and removed its temporary constraints"
