"""A move: add constraints, wait until healthy, remove them; or roll back."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, DriverError
from collector.drivers.polling import NotYet, wait_for
from collector.features.swarm.client import Manager
from collector.features.swarm.models import (
    FAILED_UPDATES,
    SwarmNode,
    SwarmService,
    SwarmState,
    SwarmTask,
    local_data,
    stop_seconds,
)
from collector.features.swarm.specs import (
    Order,
    groups_of,
    has_temporary_changes,
    user_spec,
    with_constraints,
    without_constraints,
)
from collector.features.swarm.views import service_view
from collector.policies.actions import short_id


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePath:
    """How the tasks of a service on one node move to another. Its tasks elsewhere stay."""

    service: SwarmService
    source: SwarmNode
    target: SwarmNode
    constraints: tuple[str, ...]
    """Temporary constraints that leave Swarm only the target and the nodes of the other tasks."""
    rollback_constraints: tuple[str, ...]
    """Temporary constraints of the rollback; none if Swarm must choose the node."""
    order: Order
    tasks: frozenset[str]
    """The tasks before the move."""
    moved: int
    """Number of tasks on the source."""
    stop_seconds: float
    """How long a task may take to stop."""


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """The state of a move."""

    service: SwarmService
    tasks: tuple[SwarmTask, ...]
    source_is_up: bool
    target_is_up: bool

    @property
    def wanted(self) -> list[SwarmTask]:
        return [task for task in self.tasks if task.wanted]


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
    spec = user_spec(service.spec)
    return MovePath(
        service=service,
        source=source,
        target=target,
        constraints=tuple(cluster.only_on(service, {target.id}, leaving=source.id)),
        rollback_constraints=_rollback_constraints(source, target, count.keys() - {source.id, ""}),
        order=Order.STOP if any(local_data(spec, writable_only=True)) else Order.START,
        tasks=frozenset(each.id for each in tasks),
        moved=count[source.id],
        stop_seconds=stop_seconds(spec),
    )


def _rollback_constraints(source: SwarmNode, target: SwarmNode, elsewhere: set[str]) -> tuple[str, ...]:
    if not elsewhere:
        return (f"node.id=={source.id}",)
    return () if target.id in elsewhere else (f"node.id!={target.id}",)


class Mover:
    """Moves tasks."""

    def __init__(self, manager: Manager, settings: DriverConfig) -> None:
        self._manager = manager
        self._settings = settings

    async def move(self, container: str, source: str, target: str) -> ActionResult:
        """Move a container, and with it the other containers of its service on the same node."""
        cluster = await self._manager.read_state()
        task = cluster.task(container)
        if task is None or cluster.node_of[task.node_id].name != source:
            return ActionResult.gone(container, source)
        if source == target:
            return ActionResult(what=f"{short_id(container)} already runs on {target}", nothing_to_do=True)
        path = plan_path(cluster, task, target)
        await self._constrain(path, path.constraints)
        try:
            arrived = await self._wait(path, _arrived_tasks)
        except DriverError as failure:
            raise DriverError(await self._roll_back(path, str(failure))) from None
        what = _describe(path, arrived, cluster)
        what = await self._manager.remove_constraints(path.service.id, what)
        return ActionResult(what=what, containers=tuple(each.container for each in arrived))

    async def release(self, cluster: SwarmState) -> tuple[str, ...]:
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

    async def _constrain(self, path: MovePath, constraints: tuple[str, ...]) -> None:
        def change(spec: dict[str, object]) -> dict[str, object]:
            return with_constraints(spec, constraints, path.order, self._settings.stable_seconds)

        await self._manager.change_service(path.service.id, change)

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
                await self._wait(path, _returned_tasks)
                what = f"{what}; rolled back, and it runs"
            except DriverError as worse:
                what = f"{what}; rolled back, but it does not run yet ({worse})"
            await self._manager.change_service(path.service.id, without_constraints)
        except DriverError as error:
            return f"{what}; its constraints could not be removed yet ({error})"
        return what

    async def _wait(
        self, path: MovePath, judge: Callable[[MovePath, MoveProgress], list[SwarmTask] | None]
    ) -> list[SwarmTask]:
        """Poll until `judge` returns tasks."""

        async def judged() -> list[SwarmTask]:
            try:
                progress = await self._read_progress(path)
            except DriverError as error:  # the Swarm works without a manager for a moment
                raise NotYet(str(error)) from error
            if (tasks := judge(path, progress)) is None:
                raise NotYet(_obstacle(path, progress))
            return tasks

        settings = self._settings
        return await wait_for(judged, settings.healthy_seconds + settings.stable_seconds + path.stop_seconds)

    async def _read_progress(self, path: MovePath) -> MoveProgress:
        service, tasks, source, target = await asyncio.gather(
            self._manager.service(path.service.id),
            self._manager.tasks(path.service.id),
            self._manager.node(path.source.id),
            self._manager.node(path.target.id),
        )
        return MoveProgress(service, tasks, source.ready, target.ready)


def _arrived_tasks(path: MovePath, progress: MoveProgress) -> list[SwarmTask] | None:
    """Return the new tasks once all tasks are healthy and none is left on the source."""
    if not progress.target_is_up:
        raise DriverError("the node went down")
    if progress.service.update.state in FAILED_UPDATES or any(task.has_no_place for task in progress.wanted):
        raise DriverError(_obstacle(path, progress))
    ended = not any(task.runs and task.node_id == path.source.id for task in progress.tasks)
    left = all(task.node_id != path.source.id for task in progress.wanted)
    whole = len(progress.wanted) >= len(path.tasks) and all(task.runs for task in progress.wanted)
    # Tasks of a node that is down are listed as running until it comes back.
    if not ((ended or not progress.source_is_up) and left and whole) or progress.service.is_updating:
        return None
    return [task for task in progress.wanted if task.id not in path.tasks]


def _returned_tasks(path: MovePath, progress: MoveProgress) -> list[SwarmTask] | None:
    """Return all tasks once as many run as before and none is new on the target."""
    new = {task.node_id for task in progress.wanted if task.id not in path.tasks}
    whole = len(progress.wanted) == len(path.tasks) and all(task.runs for task in progress.wanted)
    return progress.wanted if whole and (not path.rollback_constraints or path.target.id not in new) else None


def _obstacle(path: MovePath, progress: MoveProgress) -> str:
    """Return the obstacle, as Swarm reports it."""
    new = [task for task in progress.tasks if task.id not in path.tasks]
    error = next((task.status.err for task in new if task.status.err), "")
    waiting = next((task.status.state for task in new if task.wanted and not task.runs), "")
    return (
        error
        or (f"it is still {waiting}" if waiting else progress.service.update.message)
        or "it did not move"
    )


def _describe(path: MovePath, arrived: list[SwarmTask], cluster: SwarmState) -> str:
    names = [cluster.node_of[task.node_id].name for task in arrived if task.node_id in cluster.node_of]
    count = "a task" if path.moved == 1 else f"all {path.moved} tasks"
    what = f"moved {count} of {path.service.name} from {path.source.name} to {path.target.name}, {path.order}"
    others = sorted({name for name in names if name != path.target.name})
    return f"{what}; Swarm chose {', '.join(others)}" if others else what
