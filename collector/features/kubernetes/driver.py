"""The driver for Kubernetes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from collector.common.orchestrator import OrchestratorState
from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, Driver, DriverError
from collector.drivers.power import PowerSwitch
from collector.features.kubernetes.client import ApiServer, connect
from collector.features.kubernetes.moves import Evictor
from collector.features.kubernetes.power import KubernetesNodes, drained_nodes
from collector.features.kubernetes.scaling import KubernetesScaler
from collector.features.kubernetes.views import view_of
from collector.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Resize, Scale, Start


class Kubernetes(Driver):
    """Acts through the API server."""

    name = "kubernetes"
    dry = False
    has_queue = True

    def __init__(self, server: ApiServer, settings: DriverConfig) -> None:
        self._server = server
        self._evictor = Evictor(server, settings)
        self._scaler = KubernetesScaler(server, settings)
        self._switch = PowerSwitch(KubernetesNodes(server), settings)

    async def view(self) -> OrchestratorState:
        nodes, pods, workloads = await asyncio.gather(
            self._server.nodes(), self._server.pods(), self._server.workloads()
        )
        return view_of(nodes, pods, workloads)

    async def carry_out(self, action: Action) -> ActionResult:
        match action:
            case Move():
                return await self._evictor.evict(action.task, action.node)
            case Kill() if action.target is not None:
                return await self._evictor.evict(action.task, action.node)
            case Kill():
                return await self._evictor.stop(action.task, action.node)
            case Start():
                return await self._evictor.start(action.task, action.target)
            case Cut():
                raise DriverError(
                    f"{action.title} cannot be limited: Kubernetes manages the limits of its pods"
                )
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
            case PowerOn() if done.before:
                await self._switch.off(action.node)
            case PowerOff() if done.before:
                await self._switch.on(action.node)
            case Scale():
                await self._scaler.unscale(action)
            case Resize():
                await self._scaler.unresize(action, done)
            case Start():
                for container in done.containers:
                    await self._evictor.stop(container, action.target)
            case Move() | Kill() if done.containers:
                raise DriverError("an eviction cannot be undone: Kubernetes chose the new node")

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - nothing is parked
        return await self._switch.release(drained_nodes(await self._server.nodes()))


@asynccontextmanager
async def open_driver(settings: DriverConfig) -> AsyncIterator[Driver]:
    """Connect to the API server."""
    async with connect(settings) as server:
        yield Kubernetes(server, settings)
