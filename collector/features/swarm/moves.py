"""A move: add constraints, wait until healthy, remove them; or roll back."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from collector.act.drivers.interface import (
    ActionResult,
    DriverError,
    HalfDoneError,
    NotYet,
    unless_undone,
)
from collector.act.drivers.power import SwitchingDriver
from collector.decide.policies.actions import Kill, Move, short_id
from collector.features.swarm.client import Manager, ServiceProgress
from collector.features.swarm.models import SwarmNode, SwarmService, SwarmState, SwarmTask, TasksBefore
from collector.features.swarm.specs import (
    constraints_of,
    is_constrained,
    with_constraints,
    without_constraints,
)
from collector.features.swarm.views import service_view


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePath:
    """How the tasks of a service on one node move to another. Its tasks elsewhere stay."""

    service: SwarmService
    source: SwarmNode
    target: SwarmNode
    constraints: Sequence[str]
    """Temporary constraints that leave Swarm only the target and the nodes of the other tasks."""
    rollback_constraints: Sequence[str]
    """Temporary constraints of the rollback; none if Swarm must choose the node."""
    tasks: frozenset[str]
    """The tasks before the move."""
    names: Mapping[str, str]
    """Names of all nodes, by id."""


def plan_path(cluster: SwarmState, task: SwarmTask, target_name: str) -> MovePath:
    """Plan the move of a task to a node. Raise `DriverError` if it must not or cannot move."""
    service, source = cluster.service_of[task.service_id], cluster.node_of[task.node_id]
    if (stays := service_view(service).stays) is not None:
        raise DriverError(f"{service.name} cannot move: {stays}")
    target = cluster.accepting_node(target_name)
    if service.is_updating:
        raise DriverError(f"{service.name} is being updated: wait until the update ends")
    tasks = frozenset(each.id for each in cluster.wanted_tasks(service))
    return _path(cluster, service, source, target, tasks)


def _path(
    cluster: SwarmState, service: SwarmService, source: SwarmNode, target: SwarmNode, tasks: frozenset[str]
) -> MovePath:
    elsewhere = {each.node_id for each in cluster.wanted_tasks(service) if each.id in tasks}
    elsewhere -= {source.id, ""}
    away = [] if target.id in elsewhere else [f"node.id!={target.id}"]
    return MovePath(
        service=service,
        source=source,
        target=target,
        constraints=cluster.only_on(service, {target.id}, leaving=source.id),
        rollback_constraints=away if elsewhere else [f"node.id=={source.id}"],
        tasks=tasks,
        names={node.id: node.name for node in cluster.nodes},
    )


def _rollbacks(path: MovePath) -> tuple[str, str]:
    """Return the constraints that only a rollback has."""
    return f"node.id!={path.target.id}", f"node.id=={path.source.id}"


class Mover(SwitchingDriver):
    """Moves a container, and with it the other containers of its service on the same node."""

    _manager: Manager

    async def move(self, container: str, source: str, target: str) -> ActionResult:
        cluster = await self._manager.read_state()
        task = cluster.task(container, source)
        if task is None:
            return ActionResult.gone(container, source)
        if source == target:
            return ActionResult(what=f"{short_id(container)} already runs on {target}", nothing_to_do=True)
        path = plan_path(cluster, task, target)
        await self._constrain(path, path.constraints)
        return await self._finish(path)

    async def recover_move(self, action: Move | Kill, target: str, noted: bytes) -> ActionResult | None:
        """Go on where the move or its rollback stopped, by the constraints of the service and its tasks."""
        cluster = await self._manager.read_state()
        before = msgspec.json.decode(noted, type=TasksBefore) if noted else None
        service = None if before is None else cluster.service_of.get(before.service)
        if before is None or service is None:
            return None
        source, destination = cluster.node(action.node), cluster.node(target)
        path = _path(cluster, service, source, destination, frozenset(before.tasks))
        if is_constrained(service.spec):
            if set(_rollbacks(path)) & set(constraints_of(service.spec)):
                await self._roll_back(path, "the rollback was interrupted")
                return None
            return await unless_undone(self._finish(path))
        tasks = cluster.wanted_tasks(service)
        arrived = [task for task in tasks if task.id not in before.tasks and task.runs]
        if any(task.container == action.task for task in tasks) or not arrived:
            return None
        is_moved = all(task.node_id != source.id for task in tasks)
        return self._moved(path, arrived) if is_moved else None

    async def tasks_before(self, container: str, node: str) -> bytes:
        """Return the tasks of the service of a container, as `recover` needs them; empty if it has left."""
        cluster = await self._manager.read_state()
        task = cluster.task(container, node)
        if task is None:
            return b""
        tasks = cluster.wanted_tasks(cluster.service_of[task.service_id])
        return msgspec.json.encode(
            TasksBefore(task.service_id, tuple(each.id for each in tasks), task.id, task.slot)
        )

    async def _finish(self, path: MovePath) -> ActionResult:
        """Wait until the tasks have moved, and remove the temporary constraints; or roll back."""
        try:
            arrived = await self._wait_for_tasks(path, _arrived_tasks)
        except DriverError as failure:
            raise DriverError(await self._roll_back(path, str(failure))) from None
        done = self._moved(path, arrived)
        return replace(done, what=await self._manager.remove_constraints(path.service.id, done.what))

    @staticmethod
    def _moved(path: MovePath, arrived: Sequence[SwarmTask]) -> ActionResult:
        count = "a task" if len(arrived) == 1 else f"{len(arrived)} tasks"
        what = f"moved {count} of {path.service.name} from {path.source.name} to {path.target.name}"
        what = f"{what}, {path.service.update_order}"
        names = {path.names[task.node_id] for task in arrived if task.node_id in path.names}
        if others := sorted(names - {path.target.name}):
            what = f"{what}; Swarm chose {', '.join(others)}"
        return ActionResult(what=what, containers=tuple(each.container for each in arrived))

    async def end_moves(self, cluster: SwarmState) -> tuple[str, ...]:
        """Remove constraints that an interrupted move or start left on services.

        Swarm completes such an update without help, unless the new task fits on no node.
        """
        stuck = {task.service_id for task in cluster.tasks if task.wanted and task.has_no_place}
        left = [
            service
            for service in cluster.services
            if is_constrained(service.spec) and (not service.is_updating or service.id in stuck)
        ]
        for service in left:
            await self._manager.change_service(service.id, without_constraints)
        return tuple(f"removed the constraints that a move left on {service.name}" for service in left)

    async def end_interrupted(self, containers: Collection[str]) -> None:
        """Let Swarm complete what a killed collector began with the services of these containers."""
        for service_id in await self._manager.services_of(containers):
            service = await self._manager.service(service_id)
            if is_constrained(service.spec):
                await self._manager.wait(service_id, _require_ended, self._seconds(service))
                await self._manager.change_service(service_id, without_constraints)

    async def _constrain(self, path: MovePath, constraints: Sequence[str]) -> None:
        await self._manager.change_service(
            path.service.id,
            lambda spec: with_constraints(
                spec, constraints, path.service.update_order, self._settings.stable_seconds
            ),
        )

    async def _roll_back(self, path: MovePath, failure: str) -> str:
        """Roll back and describe the result. A constraint keeps Swarm away from the failed node."""
        what = f"{path.service.name} did not become healthy on {path.target.name} ({failure})"
        try:
            source = await self._manager.node(path.source.id)
            if path.rollback_constraints and source.ready and source.active:
                await self._constrain(path, path.rollback_constraints)
            else:  # Swarm chooses a node
                await self._manager.change_service(path.service.id, without_constraints)
            try:
                await self._wait_for_tasks(path, _returned_tasks)
                what = f"{what}; rolled back, and it runs"
            except DriverError as worse:
                what = f"{what}; rolled back, but it does not run yet ({worse})"
            await self._manager.change_service(path.service.id, without_constraints)
        except DriverError as error:
            raise HalfDoneError(f"{what}; its constraints could not be removed yet ({error})") from error
        return what

    async def _wait_for_tasks(
        self, path: MovePath, judge: Callable[[MovePath, ServiceProgress], list[SwarmTask] | None]
    ) -> list[SwarmTask]:
        """Wait until `judge` returns tasks."""

        def judged(now: ServiceProgress) -> list[SwarmTask]:
            if (tasks := judge(path, now)) is None:
                raise NotYet(now.obstacle(path.tasks))
            return tasks

        nodes = (path.source.id, path.target.id)
        return await self._manager.wait(path.service.id, judged, self._seconds(path.service), nodes)

    def _seconds(self, service: SwarmService) -> float:
        """Return how long to wait for the tasks of a service to start and to stop."""
        return self._settings.healthy_seconds + self._settings.stable_seconds + service.stop_seconds


def _require_ended(now: ServiceProgress) -> None:
    if now.service.is_updating and not any(task.has_no_place for task in now.wanted):
        raise NotYet(now.obstacle(()))


def _arrived_tasks(path: MovePath, now: ServiceProgress) -> list[SwarmTask] | None:
    """Return the new tasks once all tasks are healthy and none is left on the source."""
    if path.target.id in now.down:
        raise DriverError("the node went down")
    if now.has_failed:
        raise DriverError(now.obstacle(path.tasks))
    # Tasks of a node that is down are listed as running until it comes back.
    ended = path.source.id in now.down or not any(
        task.runs and task.node_id == path.source.id for task in now.tasks
    )
    left = all(task.node_id != path.source.id for task in now.wanted)
    whole = len(now.wanted) >= len(path.tasks) and all(task.runs for task in now.wanted)
    if not (ended and left and whole) or now.service.is_updating:
        return None
    return [task for task in now.wanted if task.id not in path.tasks]


def _returned_tasks(path: MovePath, now: ServiceProgress) -> list[SwarmTask] | None:
    """Return all tasks once as many run as before and none is new on the target."""
    new = {task.node_id for task in now.wanted if task.id not in path.tasks}
    whole = len(now.wanted) == len(path.tasks) and all(task.runs for task in now.wanted)
    return now.wanted if whole and (not path.rollback_constraints or path.target.id not in new) else None
