"""Requests to the managers of a Swarm."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from collector.act.drivers.engine.client import Engine, Json, filtered
from collector.act.drivers.interface import DriverError, NotYet, RefusedError, wait_for
from collector.features.swarm.models import (
    ENDED,
    FAILED_UPDATES,
    SwarmNode,
    SwarmService,
    SwarmState,
    SwarmTask,
    node_named,
)
from collector.features.swarm.specs import without_constraints

_TRIES = 5
"""Attempts at an update while others change the same object."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ServiceProgress:
    """The state of a service that is being changed."""

    service: SwarmService
    tasks: tuple[SwarmTask, ...]
    """Including ended ones that Swarm lists."""
    down: frozenset[str]
    """Those of the watched nodes that are down."""

    @property
    def wanted(self) -> list[SwarmTask]:
        return [task for task in self.tasks if task.wanted]

    @property
    def has_failed(self) -> bool:
        """Whether Swarm does not complete the change."""
        return self.service.update.state in FAILED_UPDATES or any(task.has_no_place for task in self.wanted)

    def obstacle(self, known: Collection[str]) -> str:
        """Return why the change is not complete, as Swarm reports it; `known` are the tasks before it."""
        errors = (
            task.status.err
            for task in self.tasks
            if task.id not in known or (task.wanted and task.has_no_place)
        )
        late = (
            f"it is still {task.status.state}"
            for task in self.tasks
            if task.wanted != task.runs and task.status.state not in ENDED
        )
        return next(filter(None, (*errors, *late, self.service.update.message)), "nothing has changed")


class Manager:
    """Client of the managers of a Swarm."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read_state(self) -> SwarmState:
        """Return all nodes, services and tasks that run or should run."""
        nodes, services, tasks = await asyncio.gather(
            self._engine.get("/nodes", tuple[SwarmNode, ...]),
            self._engine.get("/services", tuple[SwarmService, ...]),
            self._engine.get("/tasks", tuple[SwarmTask, ...], filters=filtered(desired_state="running")),
        )
        return SwarmState.of(nodes, services, tasks)

    async def service(self, service_id: str) -> SwarmService:
        return await self._engine.get(f"/services/{service_id}", SwarmService)

    async def tasks(self, service_id: str) -> tuple[SwarmTask, ...]:
        """Return the tasks of a service, including ended ones that Swarm lists."""
        return await self._engine.get("/tasks", tuple[SwarmTask, ...], filters=filtered(service=service_id))

    async def services_of(self, containers: Collection[str]) -> frozenset[str]:
        """Return the ids of the services of containers, which may have ended."""
        tasks = await self._engine.get("/tasks", tuple[SwarmTask, ...])
        return frozenset(task.service_id for task in tasks if task.container in containers)

    async def node_named(self, name: str) -> SwarmNode:
        """Return the node of a host name. Raise `DriverError` if there is none, or several."""
        return node_named(name, await self._engine.get("/nodes", tuple[SwarmNode, ...]))

    async def node(self, node_id: str) -> SwarmNode:
        return await self._engine.get(f"/nodes/{node_id}", SwarmNode)

    async def tasks_on(self, node_id: str) -> tuple[SwarmTask, ...]:
        return await self._engine.get("/tasks", tuple[SwarmTask, ...], filters=filtered(node=node_id))

    async def wait(
        self,
        service_id: str,
        judge: Callable[[ServiceProgress], Result],
        seconds: float,
        nodes: Collection[str] = (),
    ) -> Result:
        """Wait until `judge` returns a result instead of raising `NotYet`. Raise `DriverError`."""

        async def judged() -> Result:
            try:
                service, tasks, watched = await asyncio.gather(
                    self.service(service_id),
                    self.tasks(service_id),
                    asyncio.gather(*(self.node(each) for each in nodes)),
                )
            except DriverError as error:  # the Swarm works without a manager for a moment
                raise NotYet(str(error)) from error
            down = frozenset(node.id for node in watched if not node.ready)
            return judge(ServiceProgress(service, tasks, down))

        return await wait_for(judged, seconds)

    async def change_service(self, service_id: str, change: Callable[[Json], Json]) -> None:
        """Update the spec of a service with `change`, if that changes it."""
        await self._change(f"/services/{service_id}", SwarmService, change)

    async def remove_constraints(self, service_id: str, what: str) -> str:
        """Remove temporary constraints after an action; return `what` was done, and whether that failed."""
        try:
            await self.change_service(service_id, without_constraints)
        except DriverError as error:  # the action itself is done
            return f"{what}; its temporary settings could not be removed yet ({error})"
        return what

    async def change_node(self, node_id: str, change: Callable[[Json], Json]) -> None:
        """Update the spec of a node with `change`, if that changes it."""
        await self._change(f"/nodes/{node_id}", SwarmNode, change)

    async def _change(
        self, path: str, kind: type[SwarmService] | type[SwarmNode], change: Callable[[Json], Json]
    ) -> None:
        name = path
        for _ in range(_TRIES):
            now = await self._engine.get(path, kind)
            name, wanted = now.name, change(now.spec)
            if wanted == now.spec:
                return
            try:
                await self._engine.post(f"{path}/update", wanted, version=now.version.index)
            except RefusedError as error:
                if "out of sequence" not in str(error):  # it has not changed since it was read
                    raise
            else:
                return
        raise DriverError(f"{name} keeps changing: its update failed {_TRIES} times")
