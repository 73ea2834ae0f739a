"""The driver for Docker Swarm."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager

from collector.common.orchestrator import OrchestratorState
from collector.config import DriverConfig
from collector.drivers.engine.client import connect
from collector.drivers.engine.cuts import cut, uncut
from collector.drivers.engine.engines import Engines, open_engines
from collector.drivers.interface import ActionResult, Driver, Hold
from collector.drivers.power import PowerSwitch
from collector.features.swarm.client import Manager
from collector.features.swarm.deployments import Deployer
from collector.features.swarm.moves import Mover
from collector.features.swarm.parking import Parker
from collector.features.swarm.power import SwarmNodes, drained_nodes
from collector.features.swarm.scaling import SwarmScaler
from collector.features.swarm.views import view_of
from collector.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Resize, Scale, Start
from wire.errors import UserError


class Swarm(Driver):
    """Acts through the managers of a Swarm; on single containers through the configured engines."""

    name = "swarm"
    dry = False
    has_queue = True

    def __init__(self, manager: Manager, engines: Engines, settings: DriverConfig) -> None:
        self._manager = manager
        self._engines = engines
        self._mover = Mover(manager, settings)
        self._parker = Parker(manager, settings)
        self._deployer = Deployer(manager)
        self._scaler = SwarmScaler(manager, settings)
        self._switch = PowerSwitch(SwarmNodes(manager, engines.unmanaged), settings)

    async def view(self) -> OrchestratorState:
        return view_of(await self._manager.read_state())

    async def carry_out(self, action: Action) -> ActionResult:
        match action:
            case Move():
                return await self._mover.move(action.task, action.node, action.target)
            case Kill(target=str(target)):
                # A new task has the limits of its service, so that a move is enough.
                return await self._mover.move(action.task, action.node, target)
            case Kill():
                return await self._parker.park(action.task, action.node)
            case Start():
                return await self._parker.start(action.task, action.target)
            case Cut():
                return await cut(self._engines.of(action.node), action)
            case PowerOn():
                return await self._switch.on(action.node)
            case PowerOff():
                return await self._switch.off(action.node)
            case Scale():
                return await self._scaler.scale(action)
            case Resize():
                return await self._scaler.resize(action)

    async def undo(self, action: Action, done: ActionResult) -> None:
        match action:
            case Kill(target=None) if done.before:
                await self._parker.unpark(done)
            case Move(node=source) | Kill(node=source):
                await self._move_back(done, source)
            case Start():
                await self._park_again(done)
            case Cut() if done.before:
                await uncut(self._engines.of(action.node), action, done)
            case PowerOn() if done.before:
                await self._switch.off(action.node)
            case PowerOff() if done.before:
                await self._switch.on(action.node)
            case Scale():
                await self._scaler.unscale(action)
            case Resize():
                await self._scaler.unresize(action)

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:
        cluster = await self._manager.read_state()
        return (
            *(() if keep_parked else await self._parker.release(cluster)),
            *await self._mover.release(cluster),
            *await self._deployer.advance(cluster),
            *await self._switch.release(drained_nodes(cluster)),
        )

    async def hold_back(self, tasks: Collection[str]) -> tuple[str, ...]:
        return await self._parker.hold_back(tasks)

    async def hold(self, replicas: Mapping[str, int]) -> Hold:
        return await self._deployer.hold(replicas)

    async def _park_again(self, done: ActionResult) -> None:
        cluster = await self._manager.read_state()
        for container in done.containers:
            if (task := cluster.task(container)) is not None:
                await self._parker.park(container, cluster.node_of[task.node_id].name)

    async def _move_back(self, done: ActionResult, source: str) -> None:
        cluster = await self._manager.read_state()
        for container in done.containers:
            if (task := cluster.task(container)) is not None:
                await self._mover.move(container, cluster.node_of[task.node_id].name, source)


@asynccontextmanager
async def open_driver(settings: DriverConfig) -> AsyncIterator[Driver]:
    """Connect to a Swarm through its managers."""
    if not settings.manager_addresses:
        raise UserError(
            "driver.name is swarm, but driver.managers is empty: set it to the address of a manager"
        )
    async with connect(settings.manager_addresses, settings) as engine, open_engines(settings) as engines:
        yield Swarm(Manager(engine), engines, settings)
