"""A move, step by step: steer, wait until healthy, lift; or put back what was."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, DriverError
from collector.drivers.polling import LOOK_SECONDS
from collector.drivers.swarm.client import Manager
from collector.drivers.swarm.models import (
    SwarmNode,
    SwarmService,
    SwarmState,
    SwarmTask,
    local_data,
    service_view,
    stop_seconds,
)
from collector.drivers.swarm.specs import Order, as_written, is_marked, steered
from collector.policies.actions import short_id

_FAILED = frozenset({"paused", "rollback_started", "rollback_paused", "rollback_completed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePath:
    """How a service's tasks get from one node to another. Those of them that run elsewhere are left alone."""

    service: SwarmService
    source: SwarmNode
    target: SwarmNode
    there: tuple[str, ...]
    """Constraints under which Swarm has nowhere else to go."""
    back: tuple[str, ...]
    """Constraints under which it goes back to where it was; none where Swarm must find a place itself."""
    order: Order
    tasks: frozenset[str]
    """The tasks there were before."""
    moved: int
    """How many of them are on the source."""
    stop_seconds: float
    """How long one of them may take to end."""


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """What is seen of a move that is under way."""

    service: SwarmService
    tasks: tuple[SwarmTask, ...]
    source_is_up: bool
    target_is_up: bool

    @property
    def wanted(self) -> list[SwarmTask]:
        return [task for task in self.tasks if task.wanted]


def way_of(cluster: SwarmState, task: SwarmTask, target_name: str) -> MovePath:
    """How a task would get to a node; raises `DriverError` if it may not, or cannot."""
    service, source = cluster.service_of[task.service_id], cluster.node_of[task.node_id]
    target = cluster.node(target_name)
    if (stays := service_view(service).stays) is not None:
        raise DriverError(f"{service.name} stays where it is: {stays}")
    if not (target.ready and target.active):
        raise DriverError(f"{service.name} cannot move to {target.name}: the node is down, paused or drained")
    if service.is_updating:
        raise DriverError(f"{service.name} is being updated: its tasks are on the move already")
    mine = [each for each in cluster.tasks if each.wanted and each.service_id == service.id]
    count = Counter(each.node_id for each in mine)
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
        tasks=frozenset(each.id for each in mine),
        moved=count[source.id],
        stop_seconds=stop_seconds(spec),
    )


def _back(source: SwarmNode, target: SwarmNode, elsewhere: set[str]) -> tuple[str, ...]:
    if not elsewhere:
        return (f"node.id=={source.id}",)
    return () if target.id in elsewhere else (f"node.id!={target.id}",)


class _NotWell(Exception):  # noqa: N818 - a state of the service
    """What was to start did not become healthy."""


class Mover:
    """Moves tasks."""

    def __init__(self, manager: Manager, settings: DriverConfig) -> None:
        self._manager = manager
        self._settings = settings

    async def move(self, container: str, source: str, target: str) -> ActionResult:
        """Move a container, together with those of its service that run on the same node."""
        cluster = await self._manager.look()
        task = cluster.task(container)
        if task is None or cluster.node_of[task.node_id].name != source:
            return ActionResult(what=f"{short_id(container)} no longer runs on {source}", nothing_to_do=True)
        if source == target:
            return ActionResult(what=f"{short_id(container)} runs on {target} already", nothing_to_do=True)
        way = way_of(cluster, task, target)
        await self._steer(way, way.there)
        try:
            arrived = await self._wait(way, _arrived)
        except _NotWell as failure:
            raise DriverError(await self._put_back(way, str(failure))) from None
        said = _told(way, arrived, cluster)
        try:
            await self._manager.change_service(way.service.id, as_written)
        except DriverError as error:  # it has moved all the same
            said = f"{said}; the constraints that led it there are still to be lifted ({error})"
        return ActionResult(what=said, containers=tuple(each.container for each in arrived))

    async def release(self, cluster: SwarmState) -> tuple[str, ...]:
        """Lift what constraints of ours are left on services that are not on the move."""
        left = [
            service for service in cluster.services if is_marked(service.spec) and not service.is_updating
        ]
        for service in left:
            await self._manager.change_service(service.id, as_written)
        return tuple(f"lifted the constraints that a move left on {service.name}" for service in left)

    async def _steer(self, way: MovePath, constraints: tuple[str, ...]) -> None:
        def change(spec: dict[str, object]) -> dict[str, object]:
            return steered(spec, constraints, way.order, self._settings.stable_seconds)

        await self._manager.change_service(way.service.id, change)

    async def _put_back(self, way: MovePath, failure: str) -> str:
        """Have all as it was, and say so. A constraint keeps Swarm from preferring what has just failed."""
        said = f"{way.service.name} did not become healthy on {way.target.name} ({failure})"
        try:
            source = await self._manager.node(way.source.id)
            if way.back and source.ready and source.active:
                await self._steer(way, way.back)
            else:  # Swarm finds a place itself
                await self._manager.change_service(way.service.id, as_written)
            try:
                await self._wait(way, _is_back)
                said = f"{said}; it was put back, and runs"
            except _NotWell as worse:
                said = f"{said}; it was put back, but does not run yet ({worse})"
            await self._manager.change_service(way.service.id, as_written)
        except DriverError as error:
            return f"{said}; the constraints of the move are still to be lifted ({error})"
        return said

    async def _wait(
        self, way: MovePath, judge: Callable[[MovePath, MoveProgress], list[SwarmTask] | None]
    ) -> list[SwarmTask]:
        """Look until `judge` is content; what keeps it from being so is in the `_NotWell` that ends it."""
        why = "nothing was heard of it"
        seconds = self._settings.healthy_seconds + self._settings.stable_seconds + way.stop_seconds
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        sight = await self._look(way)
                    except (
                        DriverError
                    ) as error:  # a manager that is lost for a moment does not stop the Swarm
                        why = str(error)
                    else:
                        if (content := judge(way, sight)) is not None:
                            return content
                        why = _trouble(way, sight)
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise _NotWell(f"{why}, after {seconds:g} s") from None

    async def _look(self, way: MovePath) -> MoveProgress:
        service, tasks, source, target = await asyncio.gather(
            self._manager.service(way.service.id),
            self._manager.tasks(way.service.id),
            self._manager.node(way.source.id),
            self._manager.node(way.target.id),
        )
        return MoveProgress(service, tasks, source.ready, target.ready)


def _arrived(way: MovePath, sight: MoveProgress) -> list[SwarmTask] | None:
    """The tasks that run anew, once all of the service's are healthy, were watched, and left the source."""
    if not sight.target_is_up:
        raise _NotWell("the node went down")
    if sight.service.update.state in _FAILED or any(task.has_no_place for task in sight.wanted):
        raise _NotWell(_trouble(way, sight))
    ended = not any(task.runs and task.node_id == way.source.id for task in sight.tasks)
    left = all(task.node_id != way.source.id for task in sight.wanted)
    whole = len(sight.wanted) >= len(way.tasks) and all(task.runs for task in sight.wanted)
    # What ran on a node that has gone down is listed as running until it comes back.
    if not ((ended or not sight.source_is_up) and left and whole) or sight.service.is_updating:
        return None
    return [task for task in sight.wanted if task.id not in way.tasks]


def _is_back(way: MovePath, sight: MoveProgress) -> list[SwarmTask] | None:
    """All tasks of the service, once none of them is new on the target and as many run as before."""
    anew = {task.node_id for task in sight.wanted if task.id not in way.tasks}
    whole = len(sight.wanted) == len(way.tasks) and all(task.runs for task in sight.wanted)
    return sight.wanted if whole and (not way.back or way.target.id not in anew) else None


def _trouble(way: MovePath, sight: MoveProgress) -> str:
    """What is the matter, in Swarm's own words."""
    anew = [task for task in sight.tasks if task.id not in way.tasks]
    told = next((task.status.err for task in anew if task.status.err), "")
    waiting = next((task.status.state for task in anew if task.wanted and not task.runs), "")
    return (
        told or (f"it is still {waiting}" if waiting else sight.service.update.message) or "it has not moved"
    )


def _told(way: MovePath, arrived: list[SwarmTask], cluster: SwarmState) -> str:
    names = [cluster.node_of[task.node_id].name for task in arrived if task.node_id in cluster.node_of]
    count = "a task" if way.moved == 1 else f"all {way.moved} tasks"
    said = f"moved {count} of {way.service.name} from {way.source.name} to {way.target.name}, {way.order}"
    others = sorted({name for name in names if name != way.target.name})
    return f"{said}; Swarm chose {', '.join(others)}" if others else said
