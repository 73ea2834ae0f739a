"""Switching nodes: drain and empty before off; wait until ready before accepting tasks again."""

import asyncio
from collections.abc import Awaitable, Callable

from collector.common.labels import DAEMON, DRAINED_LABEL, KIND_LABEL, OFF_LABEL
from collector.common.orchestrator import Mode
from collector.config import DriverConfig
from collector.drivers.docker.client import Json
from collector.drivers.hooks import SWITCHED, boot, power_off_command, run_hook
from collector.drivers.interface import ActionResult, DriverError
from collector.drivers.polling import poll_until
from collector.drivers.swarm.client import Manager
from collector.drivers.swarm.models import ENDED, SwarmNode, SwarmState
from collector.drivers.swarm.views import service_view

_DRAIN, _ACTIVE = "drain", "active"


class SwarmPower:
    """Switches nodes with the operator's commands."""

    def __init__(
        self, manager: Manager, settings: DriverConfig, unmanaged: Callable[[str], Awaitable[list[str]]]
    ) -> None:
        self._manager = manager
        self._settings = settings
        self._unmanaged = unmanaged
        """Returns the containers on a node that Swarm does not manage."""

    async def off(self, name: str) -> ActionResult:
        """Drain a node, wait until its tasks run elsewhere, and switch it off."""
        command = power_off_command(self._settings, name)
        cluster = await self._manager.read_state()
        node = cluster.node(name)
        if not node.ready or OFF_LABEL in node.labels:
            return ActionResult(what=f"{name} is already off", nothing_to_do=True)
        _require_switchable(cluster, node)
        if unmanaged := await self._unmanaged(name):
            others = ", ".join(unmanaged)
            raise DriverError(f"{name} stays on: it runs containers that Swarm does not manage: {others}")
        services = {task.service_id for task in cluster.tasks if task.wanted and task.node_id == node.id}
        await self._manager.change_node(node.id, _drained)
        try:
            await self._empty(node, services)
            await asyncio.sleep(self._settings.power_grace_seconds)
            await self._manager.change_node(node.id, _labelled_off)
            await run_hook(command, name, self._settings.power_seconds)
        except DriverError:
            await self._manager.change_node(node.id, _reactivated)
            raise
        return ActionResult(what=f"drained {name} and switched it off", before=SWITCHED)

    async def on(self, name: str) -> ActionResult:
        """Switch a node on, and activate it unless someone else drained it."""
        node = (await self._manager.read_state()).node(name)
        is_off = not node.ready or OFF_LABEL in node.labels
        if node.active and not is_off:
            return ActionResult(what=f"{name} is already on", nothing_to_do=True)

        async def is_ready() -> bool:
            return (await self._manager.node(node.id)).ready

        if is_off:
            await boot(self._settings, name, is_ready)
        await self._manager.change_node(node.id, _reactivated)
        active = (await self._manager.node(node.id)).active
        what = f"switched {name} on" + ("" if active else "; someone else has drained it")
        return ActionResult(what=what, before=SWITCHED)

    async def release(self, cluster: SwarmState) -> tuple[str, ...]:
        """Activate nodes that were drained but not switched off."""
        left = [
            node for node in cluster.nodes if DRAINED_LABEL in node.labels and OFF_LABEL not in node.labels
        ]
        for node in left:
            await self._manager.change_node(node.id, _reactivated)
        return tuple(f"activated {node.name}, which was drained but not switched off" for node in left)

    async def _empty(self, node: SwarmNode, services: set[str]) -> None:
        """Wait until the node is empty and its services run elsewhere."""

        async def is_empty() -> bool:
            cluster, there = await asyncio.gather(self._manager.read_state(), self._manager.tasks_on(node.id))
            kept = [task for task in cluster.tasks if task.service_id in services]
            return all(task.status.state in ENDED for task in there) and all(task.runs for task in kept)

        try:
            await poll_until(is_empty, self._settings.drain_seconds)
        except TimeoutError:
            raise DriverError(
                f"{node.name} stays on: after {self._settings.drain_seconds:g} s it was not empty, or its "
                "services did not run elsewhere"
            ) from None


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


def _reactivated(spec: Json) -> Json:
    labels = dict(spec.get("Labels") or {})
    labels.pop(OFF_LABEL, None)
    before = labels.pop(DRAINED_LABEL, spec.get("Availability", _ACTIVE))
    return {**spec, "Availability": before, "Labels": labels}
