"""A move: add constraints, wait until healthy, remove them; or roll back."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, DriverError
from collector.drivers.polling import POLL_SECONDS
from collector.drivers.swarm.client import Manager
from collector.drivers.swarm.models import (
    FAILED_UPDATES,
    SwarmNode,
    SwarmService,
    SwarmState,
    SwarmTask,
    local_data,
    stop_seconds,
)
from collector.drivers.swarm.specs import Order, as_written, groups_of, is_marked, lifted, steered
from collector.drivers.swarm.views import service_view
from collector.policies.actions import short_id


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePath:
    """How the tasks of a service on one node move to another. Its tasks elsewhere stay."""

    service: SwarmService
    source: SwarmNode
    target: SwarmNode
    there: tuple[str, ...]
    """Constraints that leave Swarm no other node."""
    back: tuple[str, ...]
    """Constraints of the rollback; none if Swarm must choose the node."""
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
    target = cluster.node(target_name)
    if (stays := service_view(service).stays) is not None:
        raise DriverError(f"{service.name} cannot move: {stays}")
    if not (target.ready and target.active):
        raise DriverError(f"{service.name} cannot move to {target.name}: the node is down, paused or drained")
    if service.is_updating:
        raise DriverError(f"{service.name} is being updated: wait until the update ends")
    tasks = cluster.wanted_tasks(service)
    count = Counter(each.node_id for each in tasks)
    elsewhere = count.keys() - {source.id, ""}
    if elsewhere:
        open_to_it = elsewhere | {target.id}
        there = tuple(
            f"node.id!={node.id}"
            for node in cluster.nodes
            if node.id == source.id or (node.ready and node.active and node.id not in open_to_it)
        )
    else:
        there = (f"node.id=={target.id}",)
    spec = as_written(service.spec)
    return MovePath(
        service=service,
        source=source,
        target=target,
        there=there,
        back=_back(source, target, elsewhere),
        order=Order.STOP if any(local_data(spec, writable_only=True)) else Order.START,
        tasks=frozenset(each.id for each in tasks),
        moved=count[source.id],
        stop_seconds=stop_seconds(spec),
    )


def _back(source: SwarmNode, target: SwarmNode, elsewhere: set[str]) -> tuple[str, ...]:
    if not elsewhere:
        return (f"node.id=={source.id}",)
    return () if target.id in elsewhere else (f"node.id!={target.id}",)


class _UnhealthyError(Exception):
    """A new task did not become healthy."""


class Mover:
    """Moves tasks."""

    def __init__(self, manager: Manager, settings: DriverConfig) -> None:
        self._manager = manager
        self._settings = settings

    async def move(self, container: str, source: str, target: str) -> ActionResult:
        """Move a container, with those of its service on the same node."""
        cluster = await self._manager.read_state()
        task = cluster.task(container)
        if task is None or cluster.node_of[task.node_id].name != source:
            return ActionResult(what=f"{short_id(container)} no longer runs on {source}", nothing_to_do=True)
        if source == target:
            return ActionResult(what=f"{short_id(container)} runs on {target} already", nothing_to_do=True)
        way = plan_path(cluster, task, target)
        await self._constrain(way, way.there)
        try:
            arrived = await self._wait(way, _arrived)
        except _UnhealthyError as failure:
            raise DriverError(await self._roll_back(way, str(failure))) from None
        what = _describe(way, arrived, cluster)
        try:
            await self._manager.change_service(way.service.id, lifted)
        except DriverError as error:  # the move itself is done
            what = f"{what}; its constraints could not be removed yet ({error})"
        return ActionResult(what=what, containers=tuple(each.container for each in arrived))

    async def release(self, cluster: SwarmState) -> tuple[str, ...]:
        """Remove constraints that an interrupted move or start left on services.

        Swarm continues such an update by itself, unless the new task fits on no node.
        """
        stuck = {task.service_id for task in cluster.tasks if task.wanted and task.has_no_place}
        left = [
            service
            for service in cluster.services
            if is_marked(service.spec)
            and not groups_of(service.spec)
            and lifted(service.spec) != service.spec
            and (not service.is_updating or service.id in stuck)
        ]
        for service in left:
            await self._manager.change_service(service.id, lifted)
        return tuple(f"removed the constraints that a move left on {service.name}" for service in left)

    async def _constrain(self, way: MovePath, constraints: tuple[str, ...]) -> None:
        def change(spec: dict[str, object]) -> dict[str, object]:
            return steered(spec, constraints, way.order, self._settings.stable_seconds)

        await self._manager.change_service(way.service.id, change)

    async def _roll_back(self, way: MovePath, failure: str) -> str:
        """Roll back and describe the result. A constraint keeps Swarm off the node that just failed."""
        what = f"{way.service.name} did not become healthy on {way.target.name} ({failure})"
        try:
            source = await self._manager.node(way.source.id)
            if way.back and source.ready and source.active:
                await self._constrain(way, way.back)
            else:  # Swarm chooses a node
                await self._manager.change_service(way.service.id, lifted)
            try:
                await self._wait(way, _is_back)
                what = f"{what}; rolled back, and it runs"
            except _UnhealthyError as worse:
                what = f"{what}; rolled back, but it does not run yet ({worse})"
            await self._manager.change_service(way.service.id, lifted)
        except DriverError as error:
            return f"{what}; its constraints could not be removed yet ({error})"
        return what

    async def _wait(
        self, way: MovePath, judge: Callable[[MovePath, MoveProgress], list[SwarmTask] | None]
    ) -> list[SwarmTask]:
        """Poll until `judge` returns tasks. Raise `_UnhealthyError` with the obstacle on timeout."""
        why = "no response"
        seconds = self._settings.healthy_seconds + self._settings.stable_seconds + way.stop_seconds
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        progress = await self._read_progress(way)
                    except DriverError as error:  # the Swarm works without a manager for a moment
                        why = str(error)
                    else:
                        if (tasks := judge(way, progress)) is not None:
                            return tasks
                        why = _trouble(way, progress)
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise _UnhealthyError(f"{why}, after {seconds:g} s") from None

    async def _read_progress(self, way: MovePath) -> MoveProgress:
        service, tasks, source, target = await asyncio.gather(
            self._manager.service(way.service.id),
            self._manager.tasks(way.service.id),
            self._manager.node(way.source.id),
            self._manager.node(way.target.id),
        )
        return MoveProgress(service, tasks, source.ready, target.ready)


def _arrived(way: MovePath, progress: MoveProgress) -> list[SwarmTask] | None:
    """Return the new tasks once all tasks are healthy and none is left on the source."""
    if not progress.target_is_up:
        raise _UnhealthyError("the node went down")
    if progress.service.update.state in FAILED_UPDATES or any(task.has_no_place for task in progress.wanted):
        raise _UnhealthyError(_trouble(way, progress))
    ended = not any(task.runs and task.node_id == way.source.id for task in progress.tasks)
    left = all(task.node_id != way.source.id for task in progress.wanted)
    whole = len(progress.wanted) >= len(way.tasks) and all(task.runs for task in progress.wanted)
    # Tasks of a node that is down are listed as running until it comes back.
    if not ((ended or not progress.source_is_up) and left and whole) or progress.service.is_updating:
        return None
    return [task for task in progress.wanted if task.id not in way.tasks]


def _is_back(way: MovePath, progress: MoveProgress) -> list[SwarmTask] | None:
    """Return all tasks once as many run as before and none is new on the target."""
    new = {task.node_id for task in progress.wanted if task.id not in way.tasks}
    whole = len(progress.wanted) == len(way.tasks) and all(task.runs for task in progress.wanted)
    return progress.wanted if whole and (not way.back or way.target.id not in new) else None


def _trouble(way: MovePath, progress: MoveProgress) -> str:
    """Return the obstacle, as Swarm reports it."""
    new = [task for task in progress.tasks if task.id not in way.tasks]
    error = next((task.status.err for task in new if task.status.err), "")
    waiting = next((task.status.state for task in new if task.wanted and not task.runs), "")
    return (
        error
        or (f"it is still {waiting}" if waiting else progress.service.update.message)
        or "it has not moved"
    )


def _describe(way: MovePath, arrived: list[SwarmTask], cluster: SwarmState) -> str:
    names = [cluster.node_of[task.node_id].name for task in arrived if task.node_id in cluster.node_of]
    count = "a task" if way.moved == 1 else f"all {way.moved} tasks"
    what = f"moved {count} of {way.service.name} from {way.source.name} to {way.target.name}, {way.order}"
    others = sorted({name for name in names if name != way.target.name})
    return f"{what}; Swarm chose {', '.join(others)}" if others else what
