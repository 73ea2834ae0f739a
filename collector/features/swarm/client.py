"""Requests to the managers of a Swarm."""

import asyncio
from collections.abc import Callable

from collector.drivers.engine.client import Engine, EngineError, Json, filtered
from collector.drivers.interface import DriverError
from collector.features.swarm.models import SwarmNode, SwarmService, SwarmState, SwarmTask, node_named
from collector.features.swarm.specs import without_constraints

_TRIES = 5
"""Attempts at an update while others change the same object."""


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

    async def node_named(self, name: str) -> SwarmNode:
        """Return the node of a host name. Raise `DriverError` if there is none, or several."""
        return node_named(name, await self._engine.get("/nodes", tuple[SwarmNode, ...]))

    async def node(self, node_id: str) -> SwarmNode:
        return await self._engine.get(f"/nodes/{node_id}", SwarmNode)

    async def tasks_on(self, node_id: str) -> tuple[SwarmTask, ...]:
        return await self._engine.get("/tasks", tuple[SwarmTask, ...], filters=filtered(node=node_id))

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
            except EngineError as error:
                if not error.is_conflict:
                    raise
            else:
                return
        raise DriverError(f"{name} keeps changing: its update failed {_TRIES} times")
