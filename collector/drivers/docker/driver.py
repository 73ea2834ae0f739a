"""The driver for plain hosts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from collector.config import DriverConfig
from collector.drivers.docker.client import Engine, EngineError, Json
from collector.drivers.docker.cuts import cut, limits_before, uncut
from collector.drivers.docker.engines import Engines, open_engines
from collector.drivers.docker.models import DockerContainer, Listed, service_view, task_view
from collector.drivers.docker.moves import move, stop, well
from collector.drivers.interface import ActionResult, Driver, DriverError, NodeView, OrchestratorState
from collector.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Start, short_id
from wire.errors import UserError


class PlainHosts:
    """Acts on each host through its own engine."""

    name = "docker"
    dry = False

    def __init__(self, engines: Engines, settings: DriverConfig) -> None:
        self._engines = engines
        self._settings = settings
        self._limits_at_first: dict[str, Json] = {}
        """Of containers that were cut, so that one made anew gets what it asked for."""

    async def view(self) -> OrchestratorState:
        names = self._engines.names
        seen = await asyncio.gather(*(self._seen(name) for name in names))
        containers = [(name, each) for name, there in zip(names, seen, strict=True) for each in there or ()]
        return OrchestratorState(
            nodes=tuple(
                NodeView(name=name, ready=there is not None) for name, there in zip(names, seen, strict=True)
            ),
            services=tuple(service_view(container) for _, container in containers),
            tasks=tuple(task_view(container, name) for name, container in containers),
        )

    async def carry_out(self, action: Action) -> ActionResult:
        match action:
            case Cut():
                return await self._cut(action)
            case Move():
                return await self._move(action.task, action.node, action.target)
            case Kill():
                if action.target is not None:
                    return await self._move(action.task, action.node, action.target)
                await self._stop(action.node, action.task)
                return ActionResult(what=f"stopped {action.title} on {action.node}: it waits there, in sight")
            case Start():
                return await self._start(action)
            case PowerOn() | PowerOff():
                raise DriverError(
                    f"{action.node} stays as it is: plain hosts are not switched, as nobody drains them"
                )

    async def undo(self, action: Action, done: ActionResult) -> None:
        match action:
            case Cut() if done.before:
                await uncut(self._engines.of(action.node), action, done)
                self._limits_at_first.pop(action.task, None)
            case Move(node=source, target=target) | Kill(node=source, target=str(target)):
                for container in done.containers:
                    await self._move(container, target, source)
            case Kill(target=None):
                await self._engines.of(action.node).post(f"/containers/{action.task}/start")
            case Start():
                for container in done.containers:
                    await self._stop(action.target, container)

    async def release(self) -> tuple[str, ...]:
        return ()

    async def _cut(self, action: Cut) -> ActionResult:
        done = await cut(self._engines.of(action.node), action)
        if not done.nothing_to_do:
            self._limits_at_first.setdefault(action.task, limits_before(done))
        return done

    async def _move(self, container: str, source: str, target: str) -> ActionResult:
        here, there = self._engines.of(source), self._engines.of(target)
        limits = self._limits_at_first.get(container)
        if source == target:
            return ActionResult(what=f"{short_id(container)} runs on {target} already", nothing_to_do=True)
        try:
            made, remark = await move(here, there, container, self._settings, limits)
        except DriverError as error:
            raise DriverError(
                f"{short_id(container)} cannot move from {source} to {target}: {error}"
            ) from error
        self._limits_at_first.pop(container, None)
        return ActionResult(
            what=f"made {short_id(container)} of {source} anew on {target}, as {short_id(made)}{remark}",
            containers=(made,),
        )

    async def _stop(self, node: str, container: str) -> None:
        engine = self._engines.of(node)
        await stop(engine, await engine.get(f"/containers/{container}/json", DockerContainer))

    async def _start(self, action: Start) -> ActionResult:
        """Start what was stopped: where it lies, or made anew on the target."""
        there = self._engines.of(action.target)
        try:
            await there.post(f"/containers/{action.task}/start")
        except EngineError:
            for name in self._engines.names:
                if name != action.target and await _has(self._engines.of(name), action.task):
                    return await self._move(action.task, name, action.target)
            raise
        await well(there, action.task, self._settings)
        return ActionResult(what=f"started {action.title} on {action.target}", containers=(action.task,))

    async def _seen(self, node: str) -> list[DockerContainer] | None:
        """What runs on a node; None if it does not answer."""
        engine = self._engines.of(node)
        try:
            listed = await engine.get("/containers/json", list[Listed])
            looks = await asyncio.gather(*(_look(engine, each.id) for each in listed))
        except DriverError:
            return None
        return [container for container in looks if container is not None]


async def _look(engine: Engine, container: str) -> DockerContainer | None:
    try:
        return await engine.get(f"/containers/{container}/json", DockerContainer)
    except EngineError:  # gone since it was listed
        return None


async def _has(engine: Engine, container: str) -> bool:
    try:
        return await _look(engine, container) is not None
    except DriverError:
        return False


@asynccontextmanager
async def open_docker(settings: DriverConfig) -> AsyncIterator[Driver]:
    """The engines of all hosts; raises `UserError` where none was given."""
    if not settings.engines:
        raise UserError("driver.name is docker, but [driver.engines] names no host: add one line per host")
    async with open_engines(settings) as engines:
        yield PlainHosts(engines, settings)
