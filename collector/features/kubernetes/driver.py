"""The driver for Kubernetes: evictions, and nodes that are cordoned, emptied and uncordoned."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from collector.common.labels import DRAINED_LABEL, OFF_LABEL
from collector.common.orchestrator import OrchestratorState
from collector.config import DriverConfig
from collector.drivers.interface import MAX_STOP_SECONDS, ActionResult, Driver, DriverError
from collector.drivers.polling import NotYet, wait_for
from collector.drivers.power import NodePower, PowerSwitch
from collector.features.kubernetes.client import ApiServer, connect
from collector.features.kubernetes.models import KubeNode, KubePod
from collector.features.kubernetes.scaling import KubernetesScaler
from collector.features.kubernetes.views import by_workload, reason_to_run, service_view, view_of
from collector.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn, Resize, Scale, Start


class Kubernetes(Driver):
    """Acts through the API server."""

    name = "kubernetes"
    dry = False
    has_queue = True

    def __init__(self, server: ApiServer, settings: DriverConfig) -> None:
        self._server = server
        self._settings = settings
        self._scaler = KubernetesScaler(server, settings)
        self._switch = PowerSwitch(KubernetesNodes(server), settings)

    async def view(self) -> OrchestratorState:
        nodes, pods, workloads = await asyncio.gather(
            self._server.nodes(), self._server.pods(), self._server.workloads()
        )
        return view_of(nodes, pods, workloads)

    async def carry_out(self, action: Action) -> ActionResult:
        match action:
            case Move() | Kill(target=str()):
                return await self._evict(action.task, action.node)
            case Kill():
                return await self._stop(action.task, action.node)
            case Start():
                return await self._start(action.task, action.target)
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
                    await self._stop(container, action.target)
            case Move() | Kill() if done.containers:
                raise DriverError("an eviction cannot be undone: Kubernetes chose the new node")

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - nothing is parked
        notes = {node.name: node.metadata.annotations for node in await self._server.nodes()}
        return await self._switch.release(
            name for name, each in notes.items() if DRAINED_LABEL in each and OFF_LABEL not in each
        )

    async def _evict(self, container: str, source: str) -> ActionResult:
        """Evict the pod of a container from a node; return when a new pod is ready."""
        pods = await self._server.pods()
        pod = _find(pods, container, source)
        if pod is None:
            return ActionResult.gone(container, source)
        peers = [each for each in pods if each.lives and each.workload == pod.workload]
        if (stays := service_view(pod.workload, peers).stays) is not None:
            raise DriverError(f"{pod.name} cannot move: {stays}")
        await self._server.evict(pod)
        old = {each.metadata.uid for each in peers}

        async def replaced() -> list[KubePod]:
            now = await self._server.pods()
            ready = [each for each in now if each.workload == pod.workload and each.is_ready]
            new = [each for each in ready if each.metadata.uid not in old]
            is_gone = pod.metadata.uid not in {each.metadata.uid for each in now}
            if not (is_gone and new and len(ready) >= len(peers)):
                raise NotYet(f"{pod.name} was evicted, but {pod.workload} is not ready again")
            return new

        new = await wait_for(replaced, self._settings.healthy_seconds)
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

    async def _stop(self, container: str, source: str) -> ActionResult:
        """Evict the pod of a container for more urgent ones; return when it has ended.

        Its controller creates another pod at once, which waits until it fits. The extender keeps the room for
        the pod that it was made for.
        """
        pod = _find(await self._server.pods(), container, source)
        if pod is None:
            return ActionResult.gone(container, source)
        if (reason := reason_to_run(pod)) is not None:
            raise DriverError(f"{pod.name} cannot wait: {reason}")
        await self._server.evict(pod)

        async def is_gone() -> None:
            if pod.metadata.uid in {each.metadata.uid for each in await self._server.pods(source)}:
                raise NotYet(f"{pod.name} was evicted, but has not ended")

        await wait_for(is_gone, MAX_STOP_SECONDS)
        return ActionResult(what=f"evicted {pod.name} from {source}: its replacement waits")

    async def _start(self, uid: str, target: str) -> ActionResult:
        """Wait until kube-scheduler has started a waiting pod, for which the extender keeps room."""

        async def started() -> KubePod:
            pod = next((each for each in await self._server.pods() if each.metadata.uid == uid), None)
            if pod is None or not pod.lives:
                raise DriverError(f"pod {uid} is no longer pending")
            if not pod.is_ready:
                raise NotYet(
                    f"{pod.name} is not ready on {target} (check that kube-scheduler uses the extender)"
                )
            return pod

        pod = await wait_for(started, self._settings.healthy_seconds)
        return ActionResult(what=f"{pod.name} started on {pod.spec.node_name}", containers=pod.containers)


def _find(pods: tuple[KubePod, ...], container: str, node: str) -> KubePod | None:
    pod = next((each for each in pods if each.lives and container in each.containers), None)
    return None if pod is None or pod.spec.node_name != node else pod


class KubernetesNodes:
    """Cordons nodes and evicts their pods within their disruption budgets."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def power(self, name: str) -> NodePower:
        node = await self._server.node(name)
        return NodePower(node.ready, OFF_LABEL in node.metadata.annotations, not node.spec.unschedulable)

    async def drain(self, name: str) -> Callable[[], Awaitable[None]]:
        node, pods = await asyncio.gather(self._server.node(name), self._server.pods())
        _require_switchable(node, pods)
        if not node.spec.unschedulable:
            await self._change(name, {DRAINED_LABEL: "true"}, unschedulable=True)

        async def is_empty() -> None:
            left = [pod for pod in await self._server.pods(name) if _must_leave(pod)]
            why = ""
            for pod in left:
                if pod.metadata.deletion_timestamp is None:
                    try:
                        await self._server.evict(pod)
                    except DriverError as error:  # the budget may allow it once another pod is ready
                        why = f" ({pod.name}: {error})"
            if left:
                raise NotYet(f"it was not empty{why}")

        return is_empty

    async def label_off(self, name: str) -> None:
        await self._change(name, {OFF_LABEL: "true"})

    async def activate(self, name: str) -> None:
        labels = (await self._server.node(name)).metadata.annotations
        if DRAINED_LABEL in labels:
            await self._change(name, {DRAINED_LABEL: None, OFF_LABEL: None}, unschedulable=False)
        elif OFF_LABEL in labels:  # and someone else cordoned it
            await self._change(name, {OFF_LABEL: None})

    async def _change(self, name: str, labels: dict[str, str | None], **spec: bool) -> None:
        await self._server.change_node(name, {"metadata": {"annotations": labels}, "spec": spec})


def _require_switchable(node: KubeNode, pods: Iterable[KubePod]) -> None:
    if node.is_manager:
        raise DriverError(f"{node.name} stays on: it belongs to the control plane")
    for name, members in by_workload(pod for pod in pods if pod.lives).items():
        runs_there = any(pod.spec.node_name == node.name and _must_leave(pod) for pod in members)
        if runs_there and (stays := service_view(name, members).stays) is not None:
            raise DriverError(f"{node.name} stays on: {name} runs there, and {stays}")


def _must_leave(pod: KubePod) -> bool:
    return not pod.is_bound and pod.status.phase in {"Pending", "Running"}


@asynccontextmanager
async def open_driver(settings: DriverConfig) -> AsyncIterator[Driver]:
    """Connect to the API server."""
    async with connect(settings) as server:
        yield Kubernetes(server, settings)
