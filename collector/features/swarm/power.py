"""Nodes of a Swarm that are drained and activated again."""

import asyncio
from collections.abc import Awaitable, Callable

from collector.common.labels import DAEMON, DRAINED_LABEL, KIND_LABEL, OFF_LABEL
from collector.common.orchestrator import Mode
from collector.drivers.engine.client import Json
from collector.drivers.interface import DriverError
from collector.drivers.polling import NotYet
from collector.drivers.power import NodePower
from collector.features.swarm.client import Manager
from collector.features.swarm.models import ENDED, SwarmNode, SwarmState
from collector.features.swarm.views import service_view

_DRAIN, _ACTIVE = "drain", "active"


class SwarmNodes:
    """Drains and activates nodes."""

    def __init__(self, manager: Manager, unmanaged: Callable[[str], Awaitable[list[str]]]) -> None:
        self._manager = manager
        self._unmanaged = unmanaged
        """Returns the containers on a node that Swarm does not manage."""

    async def power(self, name: str) -> NodePower:
        node = await self._manager.node_named(name)
        return NodePower(node.ready, OFF_LABEL in node.labels, node.active)

    async def drain(self, name: str) -> Callable[[], Awaitable[None]]:
        cluster = await self._manager.read_state()
        node = cluster.node(name)
        _require_switchable(cluster, node)
        if unmanaged := await self._unmanaged(name):
            others = ", ".join(unmanaged)
            raise DriverError(f"{name} stays on: it runs containers that Swarm does not manage: {others}")
        services = {task.service_id for task in cluster.tasks if task.wanted and task.node_id == node.id}
        await self._manager.change_node(node.id, _drained)

        async def is_empty() -> None:
            now, there = await asyncio.gather(self._manager.read_state(), self._manager.tasks_on(node.id))
            if any(task.status.state not in ENDED for task in there):
                raise NotYet("it was not empty")
            if not all(task.runs for task in now.tasks if task.service_id in services):
                raise NotYet("its services did not run elsewhere")

        return is_empty

    async def label_off(self, name: str) -> None:
        await self._change(name, _labelled_off)

    async def activate(self, name: str) -> None:
        await self._change(name, _activated)

    async def _change(self, name: str, change: Callable[[Json], Json]) -> None:
        await self._manager.change_node((await self._manager.node_named(name)).id, change)


def drained_nodes(cluster: SwarmState) -> list[str]:
    """Return the nodes that a collector drained and did not switch off."""
    return [
        node.name for node in cluster.nodes if DRAINED_LABEL in node.labels and OFF_LABEL not in node.labels
    ]


def _require_switchable(cluster: SwarmState, node: SwarmNode) -> None:
    if node.is_manager:
        raise DriverError(f"{node.name} stays on: it is a manager of the Swarm")
    if not any(each.ready and each.active and each.id != node.id for each in cluster.nodes):
        raise DriverError(f"{node.name} stays on: no other node accepts tasks")
    for task in cluster.tasks:
        if not task.wanted or task.node_id != node.id:
            continue
        service = service_view(cluster.service_of[task.service_id])
        if service.labels.get(KIND_LABEL) == DAEMON:
            continue  # it runs for its node, and goes with it
        if service.stays is not None and service.mode is not Mode.GLOBAL:
            raise DriverError(f"{node.name} stays on: {service.name} runs there, and {service.stays}")


def _drained(spec: Json) -> Json:
    before = spec.get("Availability", _ACTIVE)
    if before == _DRAIN:
        return spec  # by someone else, or by a collector
    return {**spec, "Availability": _DRAIN, "Labels": {**(spec.get("Labels") or {}), DRAINED_LABEL: before}}


def _labelled_off(spec: Json) -> Json:
    return {**spec, "Labels": {**(spec.get("Labels") or {}), OFF_LABEL: "true"}}


def _activated(spec: Json) -> Json:
    labels = dict(spec.get("Labels") or {})
    labels.pop(OFF_LABEL, None)
    before = labels.pop(DRAINED_LABEL, spec.get("Availability", _ACTIVE))
    return {**spec, "Availability": before, "Labels": labels}
