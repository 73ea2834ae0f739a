"""A move: add constraints, wait until healthy, remove them; or roll back."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.act.drivers.interface import ActionResult, DriverError, NotYet
from collector.act.drivers.power import SwitchingDriver
from collector.decide.policies.actions import short_id
from collector.features.swarm.client import Manager, ServiceProgress
from collector.features.swarm.models import SwarmNode, SwarmService, SwarmState, SwarmTask
from collector.features.swarm.specs import (
    groups_of,
    has_temporary_changes,
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
    moved: int
    """Number of tasks on the source."""


def plan_path(cluster: SwarmState, task: SwarmTask, target_name: str) -> MovePath:
    """Plan the move of a task to a node. Raise `DriverError` if it must not or cannot move."""
    service, source = cluster.service_of[task.service_id], cluster.node_of[task.node_id]
    if (stays := service_view(service).stays) is not None:
        raise DriverError(f"{service.name} cannot move: {stays}")
    target = cluster.accepting_node(target_name)
    if service.is_updating:
        raise DriverError(f"{service.name} is being updated: wait until the update ends")
    tasks = cluster.wanted_tasks(service)
    count = Counter(each.node_id for each in tasks)
    elsewhere = count.keys() - {source.id, ""}
    away = [] if target.id in elsewhere else [f"node.id!={target.id}"]
    return MovePath(
        service=service,
        source=source,
        target=target,
        constraints=cluster.only_on(service, {target.id}, leaving=source.id),
        rollback_constraints=away if elsewhere else [f"node.id=={source.id}"],
        tasks=frozenset(each.id for each in tasks),
        moved=count[source.id],
    )


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
        try:
            arrived = await self._wait_for_tasks(path, _arrived_tasks)
        except DriverError as failure:
            raise DriverError(await self._roll_back(path, str(failure))) from None
        count = "a task" if path.moved == 1 else f"all {path.moved} tasks"
        what = f"moved {count} of {path.service.name} from {source} to {target}, {path.service.update_order}"
        names = {cluster.node_of[task.node_id].name for task in arrived if task.node_id in cluster.node_of}
        if others := sorted(names - {target}):
            what = f"{what}; Swarm chose {', '.join(others)}"
        what = await self._manager.remove_constraints(path.service.id, what)
        return ActionResult(what=what, containers=tuple(each.container for each in arrived))

    async def end_moves(self, cluster: SwarmState) -> tuple[str, ...]:
        """Remove constraints that an interrupted move or start left on services.

        Swarm completes such an update without help, unless the new task fits on no node.
        """
        stuck = {task.service_id for task in cluster.tasks if task.wanted and task.has_no_place}
        left = [
            service
            for service in cluster.services
            if has_temporary_changes(service.spec)
            and not groups_of(service.spec)
            and without_constraints(service.spec) != service.spec
            and (not service.is_updating or service.id in stuck)
        ]
        for service in left:
            await self._manager.change_service(service.id, without_constraints)
        return tuple(f"removed the constraints that a move left on {service.name}" for service in left)

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
            return f"{what}; its constraints could not be removed yet ({error})"
        return what

    async def _wait_for_tasks(
        self, path: MovePath, judge: Callable[[MovePath, ServiceProgress], list[SwarmTask] | None]
    ) -> list[SwarmTask]:
        """Wait until `judge` returns tasks."""

        def judged(now: ServiceProgress) -> list[SwarmTask]:
            if (tasks := judge(path, now)) is None:
                raise NotYet(now.obstacle(path.tasks))
            return tasks

        settings = self._settings
        seconds = settings.healthy_seconds + settings.stable_seconds + path.service.stop_seconds
        return await self._manager.wait(path.service.id, judged, seconds, (path.source.id, path.target.id))


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
