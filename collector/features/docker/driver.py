"""The driver for Docker hosts without an orchestrator."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import msgspec

from collector.act.drivers.engine.client import Engine, Engines, Json, open_engines
from collector.act.drivers.engine.containers import (
    DockerContainer,
    ListedContainer,
    current_limits,
    cut,
    find,
    limit_changes,
    limits_before,
    packed_limits,
    recover_cut,
    uncut,
)
from collector.act.drivers.interface import (
    ActionResult,
    Driver,
    DriverError,
    HalfDoneError,
    NotYet,
    OrchestratorDriver,
    RefusedError,
    undone_on_failure,
    wait_for,
)
from collector.common.orchestrator import NodeView, OrchestratorState, TaskView
from collector.config import DriverConfig
from collector.decide.policies.actions import (
    Action,
    Cut,
    Kill,
    Move,
    Relocation,
    Resize,
    Scale,
    Start,
    short_id,
)
from collector.features.docker.containers import (
    Transfer,
    move,
    move_back,
    named,
    recover_move,
    service_view,
    stop,
    wait_until_healthy,
)
from wire.errors import UserError
from wire.resources import Quantities

log = logging.getLogger(__name__)

_KEY_BYTES = 16
_LIST_REQUESTS = 3
"""Time to list and describe the containers of a host, in timeouts of one request."""


class DockerHosts(OrchestratorDriver):
    """Acts on each host through its engine."""

    name = "docker"
    has_queue = False

    def __init__(self, engines: Engines, settings: DriverConfig) -> None:
        self._engines = engines
        self._settings = settings
        self._original_limits: dict[str, Json] = {}
        """Limits of cut containers from before the cut, for their copies."""
        self._keys: dict[str, str] = {}
        """Keys of moves that were prepared, by container."""

    async def view(self) -> OrchestratorState:
        hosts = await self._hosts()
        containers = tuple(named(hosts))
        return OrchestratorState(
            nodes=tuple(NodeView(name=name, ready=there is not None) for name, there in hosts.items()),
            services=tuple(service_view(each, service) for service, _, each in containers),
            tasks=tuple(
                TaskView(container=each.id, service=service, node=node, state=each.state.status)
                for service, node, each in containers
            ),
        )

    async def cut(self, action: Cut) -> ActionResult:
        done = await cut(self._engines[action.node], action)
        if not done.nothing_to_do:
            self._original_limits.setdefault(action.task, limits_before(done))
        return done

    async def uncut(self, action: Cut, done: ActionResult) -> None:
        await uncut(self._engines[action.node], action, done)
        self._original_limits.pop(action.task, None)

    async def prepare(self, action: Action) -> bytes:
        match action:
            case Move() | Start() | Kill(target=str()):
                key = self._keys[action.task] = secrets.token_hex(_KEY_BYTES)
                return key.encode()
            case Cut():
                return await packed_limits(self._engines[action.node], action.task)
            case Resize():
                _, container = await self._find(action.service)
                return msgspec.json.encode(current_limits(container.host_config))
        return b""

    async def recover_cut(self, action: Cut, noted: bytes) -> ActionResult | None:
        done = await recover_cut(self._engines[action.node], action, noted)
        if done is not None and done.before:
            self._original_limits.setdefault(action.task, limits_before(done))
        return done

    async def take_back(self, action: Relocation, done: ActionResult) -> None:
        match action:
            case Move(node=source, target=target) | Kill(node=source, target=str(target)):
                key, here, there = done.before.decode(), self._engines[source], self._engines[target]
                if key and not await move_back(Transfer(here, there, action.task, key)):
                    for container in done.containers:
                        await self._move(container, target, source, f"{key}-back")
            case Kill():
                await self._engines[action.node].post(f"/containers/{action.task}/start")
            case Start():
                for container in done.containers:
                    await self.stop(container, action.target)

    async def scale(self, action: Scale) -> ActionResult:
        raise DriverError(
            f"{action.service} cannot be scaled: it is a single container, and the driver docker"
            " creates none. Run it as a service of a Swarm"
        )

    async def resize(self, action: Resize) -> ActionResult:
        node, container = await self._find(action.service)
        done = await cut(self._engines[node], _as_cut(action, node, container.id))
        return replace(done, containers=(container.id,))

    async def recover_resize(self, action: Resize, noted: bytes) -> ActionResult | None:
        node, container = await self._find(action.service)
        done = await recover_cut(self._engines[node], _as_cut(action, node, container.id), noted)
        return None if done is None else replace(done, containers=(container.id,))

    async def unresize(self, action: Resize, done: ActionResult) -> None:
        node, container = await self._find(action.service)
        now, ours = current_limits(container.host_config), Quantities(action.cpu_limit_cores)
        if done.before and done.containers == (container.id,) and not limit_changes(now, ours):
            await uncut(self._engines[node], _as_cut(action, node, container.id), done)

    async def _find(self, name: str) -> tuple[str, DockerContainer]:
        """Return the running container of a service, and its host. Raise `DriverError`."""
        for service, node, container in named(await self._hosts()):
            # Of two hosts with a container of this name, one may not answer now.
            if name in {service, f"{service}@{node}"}:
                return node, container
        raise DriverError(f"no running container is called {name}")

    async def move(self, container: str, source: str, target: str) -> ActionResult:
        key = self._keys.pop(container, None) or secrets.token_hex(_KEY_BYTES)
        return await self._move(container, source, target, key)

    async def _move(self, container: str, source: str, target: str, key: str) -> ActionResult:
        here, there = self._engines[source], self._engines[target]
        limits = self._original_limits.get(container, {})
        if source == target:
            return ActionResult(what=f"{short_id(container)} already runs on {target}", nothing_to_do=True)
        try:
            created = await move(Transfer(here, there, container, key), self._settings, limits)
        except DriverError as error:
            kind = HalfDoneError if isinstance(error, HalfDoneError) else DriverError
            raise kind(f"{short_id(container)} cannot move from {source} to {target}: {error}") from error
        self._original_limits.pop(container, None)
        return _moved(container, source, target, created, key)

    async def recover_move(self, action: Move | Kill, target: str, noted: bytes) -> ActionResult | None:
        return await self._recover_move(action.task, action.node, target, noted.decode(), ran=True)

    async def _recover_move(
        self, container: str, source: str, target: str, key: str, *, ran: bool
    ) -> ActionResult | None:
        transfer = Transfer(self._engines[source], self._engines[target], container, key)
        created = await recover_move(transfer, self._settings, ran=ran)
        return None if created is None else _moved(container, source, target, created, key)

    async def stop(self, container: str, source: str) -> ActionResult:
        engine = self._engines[source]
        found = await engine.get(f"/containers/{container}/json", DockerContainer)
        await stop(engine, found)
        return ActionResult(what=f"stopped {found.plain_name} on {source}: it waits there")

    async def recover_stop(self, action: Kill, noted: bytes) -> ActionResult | None:  # noqa: ARG002 - the engine knows
        """Return whether it stops: an engine that was asked to stop it does, within its stop timeout."""
        engine = self._engines[action.node]

        async def has_stopped() -> None:
            if await _runs(engine, action.task):
                raise NotYet("it still runs")

        found = await find(engine, action.task)
        if found is None:
            return ActionResult.gone(action.task, action.node)
        with suppress(DriverError):
            await wait_for(has_stopped, found.stop_seconds + self._settings.request_seconds)
        if await _runs(engine, action.task):
            return None
        return ActionResult(what=f"stopped {found.plain_name} on {action.node}: it waits there")

    async def start(self, action: Start) -> ActionResult:
        """Start a stopped container on its host, or a copy of it on the target."""
        there = self._engines[action.target]
        try:
            await there.post(f"/containers/{action.task}/start")
        except RefusedError:
            for name in self._engines:
                if name != action.target and await _has(self._engines[name], action.task):
                    return await self.move(action.task, name, action.target)
            raise
        async with undone_on_failure(
            f"{action.title} did not start on {action.target}", lambda: self.stop(action.task, action.target)
        ):
            await wait_until_healthy(there, action.task, self._settings)
        return _started(action)

    async def recover_start(self, action: Start, noted: bytes) -> ActionResult | None:
        found = await find(self._engines[action.target], action.task)
        if found is not None:
            if found.state.status != "running":
                return None
            try:
                await wait_until_healthy(self._engines[action.target], action.task, self._settings)
            except DriverError:
                await self.stop(action.task, action.target)
                return None
            return _started(action)
        others = [name for name in self._engines if name != action.target]
        has = [name for name in others if await find(self._engines[name], action.task) is not None]
        # If no host has it, only its copy is left.
        source = next(iter(has or others), action.target)
        return await self._recover_move(action.task, source, action.target, noted.decode(), ran=False)

    async def _hosts(self) -> dict[str, list[DockerContainer] | None]:
        names = tuple(self._engines)
        return dict(zip(names, await asyncio.gather(*map(self._containers, names)), strict=True))

    async def _containers(self, node: str) -> list[DockerContainer] | None:
        """Return the containers on a node; None if its engine does not answer."""
        engine = self._engines[node]
        try:
            # A slow engine may answer each single request in time.
            async with asyncio.timeout(_LIST_REQUESTS * self._settings.request_seconds):
                listed = await engine.get("/containers/json", list[ListedContainer])
                found = await asyncio.gather(*(_inspect(engine, each.id) for each in listed))
            containers = [container for container in found if container is not None]
            for each in containers:
                service_view(each)  # an invalid one would later fail the view of all hosts
        except (DriverError, TimeoutError):
            return None
        except Exception:
            log.exception("the description of a container on %s is invalid: the host counts as down", node)
            return None
        return containers


def _moved(container: str, source: str, target: str, created: str, key: str) -> ActionResult:
    what = f"moved {short_id(container)} from {source} to {target}, as {short_id(created)}"
    return ActionResult(what=what, before=key.encode(), containers=(created,))


def _started(action: Start) -> ActionResult:
    return ActionResult(what=f"started {action.title} on {action.target}", containers=(action.task,))


def _as_cut(action: Resize, node: str, container: str) -> Cut:
    return Cut(
        task=container,
        name=action.service,
        node=node,
        allocated=Quantities(action.cpu_limit_cores),
        reasons=action.reasons,
    )


async def _runs(engine: Engine, container: str) -> bool:
    found = await find(engine, container)
    return found is not None and found.state.status == "running"


async def _inspect(engine: Engine, container: str) -> DockerContainer | None:
    try:
        return await find(engine, container)
    except RefusedError:  # it is being removed
        return None


async def _has(engine: Engine, container: str) -> bool:
    try:
        return await _inspect(engine, container) is not None
    except DriverError:
        return False


@asynccontextmanager
async def open_driver(settings: DriverConfig) -> AsyncIterator[Driver]:
    """Connect to the engines of all hosts. Raise `UserError` if none is configured."""
    if not settings.engines:
        raise UserError("driver.name is docker, but [driver.engines] is empty: add a line for each host")
    async with open_engines(settings) as engines:
        yield DockerHosts(engines, settings)
