"""The driver for Docker Swarm.

A service can be deployed on chosen nodes; Swarm may move it afterwards. Its creator adds temporary
constraints and a label to it, see `Swarm.hold`. The label contains the state of the deployment, so that any
collector can continue it: add the other replicas, and remove constraints and label once every task has its
node.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from collector.act.drivers.engine.client import Engines, Json, connect, open_engines
from collector.act.drivers.engine.containers import ListedContainer, cut, packed_limits, recover_cut, uncut
from collector.act.drivers.interface import ActionResult, Driver, DriverError, Hold, NotYet
from collector.common.labels import BEFORE_LABEL, DAEMON, DRAINED_LABEL, KIND_LABEL, OFF_LABEL
from collector.common.orchestrator import Mode, NodeView, OrchestratorState
from collector.config import DriverConfig
from collector.decide.policies.actions import Action, Cut, Kill, Move, Relocation, Start
from collector.features.swarm.client import Manager
from collector.features.swarm.models import ENDED, SwarmNode, SwarmService, SwarmState
from collector.features.swarm.moves import Mover
from collector.features.swarm.parking import Parker
from collector.features.swarm.scaling import Scaler
from collector.features.swarm.specs import (
    ReplicaGroup,
    groups_of,
    hold_label,
    only_on,
    replicas_of,
    user_spec,
    with_next_group,
)
from collector.features.swarm.views import service_view, view_of
from wire.errors import UserError

_DRAIN, _ACTIVE = "drain", "active"


class Swarm(Mover, Parker, Scaler):
    """Acts through the managers of a Swarm; on single containers through the configured engines."""

    name = "swarm"
    has_queue = True

    def __init__(self, manager: Manager, engines: Engines, settings: DriverConfig) -> None:
        self._manager = manager
        self._engines = engines
        self._settings = settings

    async def view(self) -> OrchestratorState:
        return view_of(await self._manager.read_state())

    async def prepare(self, action: Action) -> bytes:
        match action:
            case Move() | Kill():
                return await self.tasks_before(action.task, action.node)
            case Start():
                return await self.before_start(action)
            case Cut():
                return await packed_limits(self._engines[action.node], action.task)
        return b""

    async def cut(self, action: Cut) -> ActionResult:
        return await cut(self._engines[action.node], action)

    async def recover_cut(self, action: Cut, noted: bytes) -> ActionResult | None:
        return await recover_cut(self._engines[action.node], action, noted)

    async def uncut(self, action: Cut, done: ActionResult) -> None:
        await uncut(self._engines[action.node], action, done)

    async def take_back(self, action: Relocation, done: ActionResult) -> None:
        if done.before:
            await self.unpark(done)
            return
        await self.end_interrupted(done.containers)
        cluster = await self._manager.read_state()
        for task in cluster.tasks:
            if task.wanted and task.container in done.containers:
                node = cluster.node_of[task.node_id].name
                if isinstance(action, Start):
                    await self.stop(task.container, node)
                else:
                    await self.move(task.container, node, action.node)

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:
        cluster = await self._manager.read_state()
        deployed = [
            await self._continue(service, cluster) for service in cluster.services if groups_of(service.spec)
        ]
        return (
            *(() if keep_parked else await self.unpark_all(cluster)),
            *await self.end_moves(cluster),
            *filter(None, deployed),
            *await self.activate_drained({node.name: node.labels for node in cluster.nodes}),
        )

    async def hold(self, replicas: Mapping[str, int]) -> Hold:
        cluster = await self._manager.read_state()
        by_count: defaultdict[int, list[str]] = defaultdict(list)
        for name, count in sorted(replicas.items()):
            by_count[count].append(cluster.accepting_node(name).id)
        groups = [ReplicaGroup(tuple(by_count[count]), count) for count in sorted(by_count, reverse=True)]
        first = groups[0]
        constraints = only_on(first.nodes, [node.id for node in cluster.nodes])
        return Hold(
            replicas=first.replicas * len(first.nodes),
            constraints=tuple(constraints),
            labels={BEFORE_LABEL: hold_label(groups, constraints)},
        )

    async def _continue(self, service: SwarmService, cluster: SwarmState) -> str | None:
        """Continue a deployment; remove its temporary constraints once all tasks have a node."""
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
        await self._manager.change_service(service.id, lambda spec: with_next_group(spec, ids))
        if groups_of(with_next_group(service.spec, ids)):
            return None
        names = sorted(cluster.node_of[task.node_id].name for task in tasks)
        return f"deployed {service.name} on {', '.join(names)}, and removed its temporary constraints"

    async def node(self, name: str) -> NodeView:
        node = await self._manager.node_named(name)
        is_on = node.ready and OFF_LABEL not in node.labels
        return NodeView(name=name, on=is_on, ready=node.ready, accepts=node.active, labels=node.labels)

    async def drain(self, name: str) -> Callable[[], Awaitable[None]]:
        cluster = await self._manager.read_state()
        node = cluster.node(name)
        _require_switchable(cluster, node)
        # Without the engine of the node, other containers on it are unknown.
        if name in self._engines:
            listed = await self._engines[name].get("/containers/json", list[ListedContainer])
            if others := ", ".join(
                each.name for each in listed if not (each.is_swarm_task or each.is_daemon)
            ):
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
        await self._change_node(name, lambda spec: _labelled(spec, {OFF_LABEL: "true"}))

    async def activate(self, name: str) -> None:
        await self._change_node(name, _activated)

    async def _change_node(self, name: str, change: Callable[[Json], Json]) -> None:
        await self._manager.change_node((await self._manager.node_named(name)).id, change)


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


def _labelled(spec: Json, labels: Mapping[str, str]) -> Json:
    return {**spec, "Labels": {**(spec.get("Labels") or {}), **labels}}


def _drained(spec: Json) -> Json:
    before = spec.get("Availability", _ACTIVE)
    if before == _DRAIN:
        return spec  # by someone else, or by a collector
    return {**_labelled(spec, {DRAINED_LABEL: before}), "Availability": _DRAIN}


def _activated(spec: Json) -> Json:
    labels = dict(spec.get("Labels") or {})
    labels.pop(OFF_LABEL, None)
    before = labels.pop(DRAINED_LABEL, spec.get("Availability", _ACTIVE))
    return {**spec, "Availability": before, "Labels": labels}


@asynccontextmanager
async def open_driver(settings: DriverConfig) -> AsyncIterator[Driver]:
    """Connect to a Swarm through its managers."""
    if not settings.manager_addresses:
        raise UserError(
            "driver.name is swarm, but driver.managers is empty: set it to the address of a manager"
        )
    async with connect(settings.manager_addresses, settings) as engine, open_engines(settings) as engines:
        yield Swarm(Manager(engine), engines, settings)
