"""The driver for Kubernetes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, Driver, DriverError, OrchestratorState
from collector.drivers.kubernetes.client import ApiServer, connect
from collector.drivers.kubernetes.models import KubePod, service_view, view_of
from collector.drivers.kubernetes.power import KubernetesPower
from collector.drivers.polling import until
from collector.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Start, short_id


class Kubernetes:
    """Acts through the API server."""

    name = "kubernetes"
    dry = False

    def __init__(self, server: ApiServer, settings: DriverConfig) -> None:
        self._server = server
        self._settings = settings
        self._switch = KubernetesPower(server, settings)

    async def view(self) -> OrchestratorState:
        nodes, pods = await asyncio.gather(self._server.nodes(), self._server.pods())
        return view_of(nodes, pods)

    async def carry_out(self, action: Action) -> ActionResult:
        match action:
            case Move():
                return await self._evict(action.task, action.node)
            case Kill() if action.target is not None:
                return await self._evict(action.task, action.node)
            case Kill():
                raise DriverError(f"{action.title} cannot wait: Kubernetes would restart it at once")
            case Start():
                raise DriverError(
                    f"{action.title} cannot be started: Kubernetes starts it itself as soon as it fits"
                )
            case Cut():
                raise DriverError(
                    f"{action.title} cannot be limited: Kubernetes manages the limits of its pods"
                )
            case PowerOn():
                return await self._switch.on(action.node)
            case PowerOff():
                return await self._switch.off(action.node)

    async def undo(self, action: Action, done: ActionResult) -> None:
        match action:
            case PowerOn() if done.before:
                await self._switch.off(action.node)
            case PowerOff() if done.before:
                await self._switch.on(action.node)
            case Move() | Kill() if done.containers:
                raise DriverError("an eviction cannot be undone: Kubernetes chose the new node")

    async def release(self) -> tuple[str, ...]:
        return await self._switch.release(await self._server.nodes())

    async def _evict(self, container: str, source: str) -> ActionResult:
        pods = await self._server.pods()
        pod = next((each for each in pods if each.lives and container in each.containers), None)
        if pod is None or pod.spec.node_name != source:
            return ActionResult(what=f"{short_id(container)} no longer runs on {source}", nothing_to_do=True)
        peers = [each for each in pods if each.lives and each.workload == pod.workload]
        if (stays := service_view(pod.workload, peers).stays) is not None:
            raise DriverError(f"{pod.name} cannot move: {stays}")
        await self._server.evict(pod)
        new = await self._replaced(pod, peers)
        where = sorted({each.spec.node_name for each in new})
        if source in where:
            raise DriverError(
                f"{pod.name} was evicted from {source}, but Kubernetes started it there again: "
                "configure the extender in kube-scheduler"
            )
        return ActionResult(
            what=f"evicted {pod.name} from {source}; Kubernetes started it on {', '.join(where)}",
            containers=tuple(id_ for each in new for id_ in each.containers),
        )

    async def _replaced(self, pod: KubePod, peers: list[KubePod]) -> list[KubePod]:
        """Wait until a pod is gone and as many as before are ready; return the new ones."""
        old = {each.metadata.uid for each in peers}
        new: list[KubePod] = []

        async def is_replaced() -> bool:
            pods = await self._server.pods()
            ready = [each for each in pods if each.workload == pod.workload and each.is_ready]
            new[:] = [each for each in ready if each.metadata.uid not in old]
            gone = pod.metadata.uid not in {each.metadata.uid for each in pods}
            return gone and bool(new) and len(ready) >= len(peers)

        try:
            await until(is_replaced, self._settings.healthy_seconds)
        except TimeoutError:
            raise DriverError(
                f"{pod.name} was evicted, but {pod.workload} was not ready again within "
                f"{self._settings.healthy_seconds:g} s; Kubernetes keeps trying"
            ) from None
        return new


@asynccontextmanager
async def open_kubernetes(settings: DriverConfig) -> AsyncIterator[Driver]:
    """Connect to the API server."""
    async with connect(settings) as server:
        yield Kubernetes(server, settings)
