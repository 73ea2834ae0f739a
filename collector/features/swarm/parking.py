"""Parking: a task is stopped for more urgent ones, waits for its turn, and starts on a chosen node.

Swarm restarts every task that stops, on any node. So a service with one replica gets a constraint that no
node meets: its task is pending, as Swarm lists it. In a larger service that would stop all tasks, so that it
gets one replica less. Swarm then removes a task that does not run, or else one on the node with the most
tasks of the service (tested with 20.10). To make it remove the chosen task, a constraint first closes its
node, which stops only that task. If several tasks of the service run on the node, Swarm chooses by their
number.

A label of the service contains the settings to restore, so that any collector can start the task, or let
Swarm start it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from collector.act.drivers.interface import (
    ActionResult,
    DriverError,
    NotYet,
    undone_on_failure,
    unless_undone,
)
from collector.act.drivers.power import SwitchingDriver
from collector.decide.policies.actions import Kill, Start, short_id
from collector.features.swarm.client import Manager, ServiceProgress
from collector.features.swarm.models import ENDED, SwarmService, SwarmState, SwarmTask, TasksBefore, parked_id
from collector.features.swarm.specs import (
    Order,
    ParkedTask,
    groups_of,
    has_temporary_changes,
    is_constrained,
    parked_tasks,
    replicas_of,
    user_spec,
    with_constraints,
    with_parked,
    with_unparked,
    without_constraints,
)

_FULL_SECONDS = 5.0
"""Time in which Swarm must find room on a node where it was just made."""


@dataclass(frozen=True, slots=True)
class _WaitingTask:
    """A task that waits for a node."""

    service: SwarmService
    slot: int
    known: frozenset[str]
    """The tasks of the service before its start."""
    is_assigned: bool = False
    """Whether Swarm has already found a node for it."""


class _BeforeStart(msgspec.Struct, frozen=True):
    """What recovering a start needs."""

    service: str
    tasks: tuple[str, ...]
    """The ids of the tasks that are not the one that starts."""
    slot: int
    parked: ParkedTask | None
    """How it is parked; None if it waits in Swarm only."""


class Parker(SwitchingDriver):
    """Stops tasks until their turn comes, and starts them."""

    _manager: Manager

    async def stop(self, container: str, source: str) -> ActionResult:
        cluster = await self._manager.read_state()
        task = cluster.task(container, source)
        if task is None:
            return ActionResult.gone(container, source)
        service = cluster.service_of[task.service_id]
        _require_parkable(service)
        now = time.time()
        waiting = [ParkedTask(task.slot, source, now)]
        if (replicas_of(user_spec(service.spec)) or 0) > 1:
            # Swarm removes tasks without a node first, so that these wait here as well.
            siblings = [each for each in cluster.wanted_tasks(service) if not each.node_id]
            waiting += [ParkedTask(each.slot, "", now) for each in siblings]
            await self._single_out(cluster, service, task)
        await self._manager.change_service(service.id, lambda spec: with_parked(spec, waiting))
        await self._wait_until_stopped(service, task.id, task.slot)
        return ActionResult(
            what=f"stopped a task of {service.name} on {source}: it waits for its turn",
            before=msgspec.json.encode(TasksBefore(service.id, (), task.id, task.slot)),
        )

    async def recover_stop(self, action: Kill, noted: bytes) -> ActionResult | None:
        """Wait for the stop if the task is parked; otherwise give it back to Swarm, by its constraints."""
        if not noted:
            return None
        before = msgspec.json.decode(noted, type=TasksBefore)
        cluster = await self._manager.read_state()
        service = cluster.service_of.get(before.service)
        if service is None:
            return ActionResult.gone(action.task, action.node)
        if not any(each.slot == before.slot for each in parked_tasks(service.spec)):
            await self._manager.change_service(service.id, without_constraints)
            return None
        await self._wait_until_stopped(service, before.task, before.slot)
        what = f"stopped a task of {service.name} on {action.node}: it waits for its turn"
        return ActionResult(what=what, before=noted)

    async def start(self, action: Start) -> ActionResult:
        cluster = await self._manager.read_state()
        found = _find(cluster, action.task)
        if found.is_assigned:
            task = await self._wait_until_runs(found)
            where = cluster.node_of[task.node_id].name
            return ActionResult(
                what=f"Swarm started a task of {found.service.name} on {where} itself",
                containers=(task.container,),
            )
        target = cluster.accepting_node(action.target)
        before = next((each for each in parked_tasks(found.service.spec) if each.slot == found.slot), None)
        only = cluster.only_on(found.service, {target.id})
        seconds = self._settings.stable_seconds
        await self._manager.change_service(
            found.service.id, lambda spec: with_unparked(spec, found.slot, only, seconds)
        )
        return await self._finish_start(found, cluster, before, target.name)

    async def recover_start(self, action: Start, noted: bytes) -> ActionResult | None:
        """Go on where the start stopped: its task is parked, or has constraints, or runs without any."""
        before = msgspec.json.decode(noted, type=_BeforeStart)
        cluster = await self._manager.read_state()
        service = cluster.service_of.get(before.service)
        if service is None or any(each.slot == before.slot for each in parked_tasks(service.spec)):
            return None
        found = _WaitingTask(service, before.slot, frozenset(before.tasks))
        if is_constrained(service.spec):
            return await unless_undone(self._finish_start(found, cluster, before.parked, action.target))
        tasks = cluster.wanted_tasks(service)
        runs = next((each for each in tasks if each.runs and each.id not in found.known), None)
        return None if runs is None else _started(found, cluster, runs)

    async def before_start(self, action: Start) -> bytes:
        """Return the tasks of a service before a start, and how the waiting one is parked."""
        found = _find(await self._manager.read_state(), action.task)
        parked = next((each for each in parked_tasks(found.service.spec) if each.slot == found.slot), None)
        return msgspec.json.encode(
            _BeforeStart(found.service.id, tuple(sorted(found.known)), found.slot, parked)
        )

    async def _finish_start(
        self, found: _WaitingTask, cluster: SwarmState, parked: ParkedTask | None, target: str
    ) -> ActionResult:
        """Wait until the task runs, and remove the temporary constraints; or let it wait again."""

        async def undo() -> None:
            await self._manager.change_service(
                found.service.id,
                lambda spec: without_constraints(spec) if parked is None else with_parked(spec, [parked]),
            )

        async with undone_on_failure(f"{found.service.name} did not start on {target}", undo):
            task = await self._wait_until_runs(found)
        done = _started(found, cluster, task)
        return replace(done, what=await self._manager.remove_constraints(found.service.id, done.what))

    async def hold_back(self, tasks: Collection[str]) -> tuple[str, ...]:
        cluster = await self._manager.read_state()
        held = []
        for service in cluster.services:
            slots = {
                each.slot for each in cluster.wanted_tasks(service) if each.id in tasks and each.has_no_place
            }
            is_free = replicas_of(service.spec) is not None and not has_temporary_changes(service.spec)
            if slots and is_free and not service.is_updating:
                waiting = [ParkedTask(slot, "", time.time()) for slot in sorted(slots)]
                await self._manager.change_service(service.id, partial(with_parked, tasks=waiting))
                held.append(f"parked {service.name}, which waits for its turn")
        return tuple(held)

    async def unpark(self, done: ActionResult) -> None:
        """Let Swarm start a parked task wherever it fits."""
        before = msgspec.json.decode(done.before, type=TasksBefore)
        await self._manager.change_service(before.service, lambda spec: with_unparked(spec, before.slot))

    async def unpark_all(self, cluster: SwarmState) -> tuple[str, ...]:
        """Let Swarm start all parked tasks wherever they fit."""
        left = [service for service in cluster.services if parked_tasks(service.spec)]
        for service in left:
            await self._manager.change_service(service.id, user_spec)
        return tuple(f"unparked {service.name}: Swarm starts it as soon as it fits" for service in left)

    async def _single_out(self, cluster: SwarmState, service: SwarmService, task: SwarmTask) -> None:
        """Let Swarm remove this task when the service has one replica less."""
        count = Counter(each.node_id for each in cluster.wanted_tasks(service) if each.node_id)
        here = count[task.node_id]
        most = max((number for node, number in count.items() if node != task.node_id), default=0)
        if not most or here > max(most, 1):
            return  # Swarm removes a task on this node
        if here > 1:
            raise DriverError(
                f"{service.name} runs {here} tasks on {cluster.node_of[task.node_id].name}, and no fewer on"
                " another node: Swarm would stop one there"
            )
        closed = [node.id for node in cluster.nodes if node.id == task.node_id or node.id not in count]
        constraints = [f"node.id!={node}" for node in closed]
        await self._manager.change_service(
            service.id, lambda spec: with_constraints(spec, constraints, Order.STOP, 0.0)
        )

        def is_stopping(now: ServiceProgress) -> None:
            if any(each.id == task.id for each in now.wanted):
                raise NotYet("Swarm did not react")

        async with undone_on_failure(
            f"{service.name} cannot be stopped",
            lambda: self._manager.change_service(service.id, without_constraints),
        ):
            await self._manager.wait(service.id, is_stopping, self._settings.request_seconds)

    async def _wait_until_stopped(self, service: SwarmService, task: str, slot: int) -> None:
        """Wait until a task has ended and no other takes its place."""

        def has_stopped(now: ServiceProgress) -> None:
            has_ended = all(each.id != task or each.status.state in ENDED for each in now.tasks)
            if not has_ended or len(now.wanted) > (replicas_of(now.service.spec) or 0):
                raise NotYet("it still runs")

        async with undone_on_failure(
            f"a task of {service.name} did not stop",
            lambda: self._manager.change_service(service.id, lambda spec: with_unparked(spec, slot)),
        ):
            seconds = service.stop_seconds + self._settings.request_seconds
            await self._manager.wait(service.id, has_stopped, seconds)

    async def _wait_until_runs(self, found: _WaitingTask) -> SwarmTask:
        """Wait until the task that replaces a waiting one is healthy. Raise `DriverError`."""
        clock = asyncio.get_running_loop().time
        full_since: float | None = None

        def running(now: ServiceProgress) -> SwarmTask:
            nonlocal full_since
            new = [each for each in now.tasks if each.id not in found.known]
            if (runs := next((each for each in new if each.wanted and each.runs), None)) is not None:
                return runs
            if failed := next((each for each in new if each.status.state in {"failed", "rejected"}), None):
                raise DriverError(failed.status.err or f"its task is {failed.status.state}")
            full = next((each for each in new if each.wanted and each.has_no_place), None)
            full_since = None if full is None else full_since or clock()
            if full is not None and full_since is not None and clock() - full_since >= _FULL_SECONDS:
                raise DriverError(full.status.err)
            raise NotYet("it was not healthy")

        return await self._manager.wait(found.service.id, running, self._settings.healthy_seconds)


def _started(found: _WaitingTask, cluster: SwarmState, task: SwarmTask) -> ActionResult:
    where = cluster.node_of[task.node_id].name
    return ActionResult(
        what=f"started a task of {found.service.name} on {where}", containers=(task.container,)
    )


def _require_parkable(service: SwarmService) -> None:
    if replicas_of(service.spec) is None:
        raise DriverError(f"{service.name} cannot wait: it is a job, or runs on every node")
    if groups_of(service.spec):
        raise DriverError(f"{service.name} cannot wait yet: it is being deployed")
    if service.is_updating and not parked_tasks(service.spec):
        raise DriverError(f"{service.name} is being updated: wait until the update ends")


def _find(cluster: SwarmState, waiting: str) -> _WaitingTask:
    """Find a pending task or a parked replica by its id. Raise `DriverError` if it no longer waits."""
    for service in cluster.services:
        tasks = cluster.wanted_tasks(service)
        known = frozenset(each.id for each in tasks)
        if (task := next((each for each in tasks if each.id == waiting), None)) is not None:
            if task.node_id:
                return _WaitingTask(service, task.slot, known - {task.id}, is_assigned=True)
            is_parked = bool(parked_tasks(service.spec))
            if groups_of(service.spec) or (service.is_updating and not is_parked):
                raise DriverError(f"{service.name} is being updated: wait until the update ends")
            return _WaitingTask(service, task.slot, known)
        for each in parked_tasks(service.spec):
            if parked_id(service, each) == waiting:
                return _WaitingTask(service, each.slot, known)
    raise DriverError(f"task {short_id(waiting)} no longer waits")
