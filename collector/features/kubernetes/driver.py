"""The driver for Kubernetes.

The CPU limit of pods is changed in place; new pods still get the limit of the template.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from collector.act.drivers.interface import (
    MAX_STOP_SECONDS,
    ActionResult,
    Driver,
    DriverError,
    NotYet,
    undone_on_failure,
    unless_undone,
    wait_for,
)
from collector.act.drivers.power import SwitchingDriver
from collector.common.labels import DRAINED_LABEL, OFF_LABEL, STOPPED_LABEL
from collector.common.orchestrator import NodeView, OrchestratorState
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
    describe_cores,
)
from collector.features.kubernetes.client import ApiServer, connect
from collector.features.kubernetes.models import KubeNode, KubePod, sum_quantities
from collector.features.kubernetes.views import by_workload, reason_to_run, service_view, view_of

_ROUNDING_CORES = 0.001
"""Kubernetes counts in thousandths of a core."""
_Resources = dict[str, dict[str, Any]]
"""Limits and requests of containers, by their names."""


class _ReturnedError(DriverError):
    """Kubernetes started a pod again on the node that it was evicted from."""


class _Evicted(msgspec.Struct, frozen=True):
    """A pod that is evicted, and its workload."""

    name: str
    uid: str
    workload: str
    peers: tuple[str, ...]
    """Uids of all pods of the workload before."""


class Kubernetes(SwitchingDriver):
    """Acts through the API server. Cordons nodes, and evicts their pods within their disruption budgets."""

    name = "kubernetes"
    has_queue = True

    def __init__(self, server: ApiServer, settings: DriverConfig) -> None:
        self._server = server
        self._settings = settings

    async def view(self) -> OrchestratorState:
        nodes, pods, workloads = await asyncio.gather(
            self._server.nodes(), self._server.pods(), self._server.workloads()
        )
        return view_of(nodes, pods, workloads)

    async def take_back(self, action: Relocation, done: ActionResult) -> None:
        if isinstance(action, Start):
            for container in done.containers:
                await self.stop(container, action.target)
        elif done.containers:
            raise DriverError("an eviction cannot be undone: Kubernetes chose the new node")

    async def cut(self, action: Cut) -> ActionResult:
        raise DriverError(f"{action.title} cannot be limited: Kubernetes manages the limits of its pods")

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - nothing is parked
        nodes = await self._server.nodes()
        return await self.activate_drained({node.name: node.metadata.annotations for node in nodes})

    async def move(self, container: str, source: str, target: str) -> ActionResult:  # noqa: ARG002 - Kubernetes chooses
        pods = await self._server.pods()
        pod = _find(pods, container, source)
        if pod is None:
            return ActionResult.gone(container, source)
        peers = [each for each in pods if each.lives and each.workload == pod.workload]
        if (stays := service_view(pod.workload, peers).stays) is not None:
            raise DriverError(f"{pod.name} cannot move: {stays}")
        await self._server.evict(pod)
        return await self._wait_for_replacement(_evicted(pod, peers), source)

    async def prepare(self, action: Action) -> bytes:
        match action:
            case Move() | Kill():
                pods = await self._server.pods()
                if (pod := _find(pods, action.task, action.node)) is not None:
                    peers = [each for each in pods if each.lives and each.workload == pod.workload]
                    return msgspec.json.encode(_evicted(pod, peers))
            case Resize():
                if pods := tuple(await self._pods(action.service)):
                    return msgspec.json.encode(_limited(pods[0]))
        return b""

    async def recover_move(
        self,
        action: Move | Kill,
        target: str,  # noqa: ARG002 - Kubernetes chooses
        noted: bytes,
    ) -> ActionResult | None:
        """Wait for the replacement if the pod is gone or ends: its eviction is a single request."""
        if (evicted := await self._if_evicted(noted)) is None:
            return None
        with suppress(_ReturnedError):  # all is as before
            return await self._wait_for_replacement(evicted, action.node)
        return None

    async def recover_stop(self, action: Kill, noted: bytes) -> ActionResult | None:
        if (evicted := await self._if_evicted(noted)) is None:
            return None
        return await self._wait_until_gone(evicted, action.node)

    async def recover_start(self, action: Start, noted: bytes) -> ActionResult | None:  # noqa: ARG002 - nothing is begun
        with suppress(DriverError):  # it only waits for the scheduler
            return await self.start(action)
        return None

    async def _if_evicted(self, noted: bytes) -> _Evicted | None:
        """Return the pod of an interrupted eviction; None if it was not evicted."""
        if not noted:
            return None
        evicted = msgspec.json.decode(noted, type=_Evicted)
        pods = await self._server.pods()
        lives = any(
            each.metadata.uid == evicted.uid and each.metadata.deletion_timestamp is None for each in pods
        )
        return None if lives else evicted

    async def _wait_for_replacement(self, evicted: _Evicted, source: str) -> ActionResult:
        async def replaced() -> list[KubePod]:
            now = await self._server.pods()
            ready = [each for each in now if each.workload == evicted.workload and each.is_ready]
            new = [each for each in ready if each.metadata.uid not in evicted.peers]
            is_gone = evicted.uid not in {each.metadata.uid for each in now}
            if not (is_gone and new and len(ready) >= len(evicted.peers)):
                raise NotYet(f"{evicted.name} was evicted, but {evicted.workload} is not ready again")
            return new

        new = await wait_for(replaced, self._settings.healthy_seconds)
        where = sorted({each.spec.node_name for each in new})
        if source in where:
            raise _ReturnedError(
                f"{evicted.name} was evicted from {source}, but Kubernetes started it there again: "
                "configure the extender in kube-scheduler"
            )
        return ActionResult(
            what=f"evicted {evicted.name} from {source}; Kubernetes started it on {', '.join(where)}",
            containers=tuple(id_ for each in new for id_ in each.containers),
        )

    async def stop(self, container: str, source: str) -> ActionResult:
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
        return await self._wait_until_gone(_evicted(pod, ()), source)

    async def _wait_until_gone(self, evicted: _Evicted, source: str) -> ActionResult:
        async def is_gone() -> None:
            if evicted.uid in {each.metadata.uid for each in await self._server.pods(source)}:
                raise NotYet(f"{evicted.name} was evicted, but has not ended")

        await wait_for(is_gone, MAX_STOP_SECONDS)
        return ActionResult(what=f"evicted {evicted.name} from {source}: its replacement waits")

    async def start(self, action: Start) -> ActionResult:
        """Wait until kube-scheduler has started a waiting pod, for which the extender keeps room."""

        async def started() -> KubePod:
            pods = await self._server.pods()
            pod = next((each for each in pods if each.metadata.uid == action.task), None)
            if pod is None or not pod.lives:
                raise DriverError(f"pod {action.task} is no longer pending")
            if not pod.is_ready:
                why = f"{pod.name} is not ready on {action.target}"
                raise NotYet(f"{why} (check that kube-scheduler uses the extender)")
            return pod

        pod = await wait_for(started, self._settings.healthy_seconds)
        return ActionResult(what=f"{pod.name} started on {pod.spec.node_name}", containers=pod.containers)

    async def scale(self, action: Scale) -> ActionResult:
        kind = await self._set_replicas(action, action.replicas, action.replicas_before)
        return await self._finish_scaling(action, kind)

    async def recover_scale(self, action: Scale) -> ActionResult | None:
        """Go on if the workload has the new number of replicas; else restore what is noted of it."""
        now = await self._server.replicas(action.service)
        if now == action.replicas:
            kind = await self._set_replicas(action, action.replicas, action.replicas_before)
            return await unless_undone(self._finish_scaling(action, kind))
        if now == action.replicas_before:
            await self._set_replicas(action, action.replicas_before, action.replicas)
        return None

    async def _finish_scaling(self, action: Scale, kind: str) -> ActionResult:
        async def complete() -> list[KubePod]:
            pods = await self._pods(action.service)
            ready = [pod for pod in pods if pod.is_ready]
            if not len(ready) == len(pods) == action.replicas:
                raise NotYet(f"{len(ready)} of {action.replicas} replicas are ready")
            return ready

        async with undone_on_failure(
            f"{action.service} was not scaled to {action.replicas}",
            lambda: self._set_replicas(action, action.replicas_before, action.replicas),
        ):
            ready = await wait_for(complete, self._settings.healthy_seconds)
        counts = f"from {action.replicas_before} to {action.replicas}"
        return ActionResult(
            what=f"scaled {kind} {action.service} {counts} replicas",
            containers=tuple(sorted(id_ for pod in ready for id_ in pod.containers)),
        )

    async def unscale(self, action: Scale) -> None:
        if await self._server.replicas(action.service) == action.replicas:
            await self._set_replicas(action, action.replicas_before, action.replicas)

    async def _set_replicas(self, action: Scale, replicas: int, before: int) -> str:
        """Set the number of replicas, and note those of an optional workload that stops; return its kind."""
        if action.sheds:
            await self._server.annotate(action.service, {STOPPED_LABEL: None if replicas else str(before)})
        return await self._server.scale(action.service, replicas)

    async def resize(self, action: Resize) -> ActionResult:
        pods = await self._pods(action.service)
        if not pods:
            raise DriverError(f"{action.service} has no pods")
        return await self._resize(action, pods, _limited(pods[0]))

    async def recover_resize(self, action: Resize, noted: bytes) -> ActionResult | None:
        """Resize the other pods if some are: each is changed by a request of its own."""
        pods = await self._pods(action.service)
        if not noted or not any(_has(pod, action.cpu_limit_cores) for pod in pods):
            return None
        return await unless_undone(self._resize(action, pods, msgspec.json.decode(noted, type=_Resources)))

    async def _resize(self, action: Resize, pods: list[KubePod], before: _Resources) -> ActionResult:
        """Change the CPU limit of pods; return when all of the workload have it."""
        await self._apply(pods, _resources_with(pods[0], action.cpu_limit_cores))

        async def undo() -> None:
            await self._apply(await self._pods(action.service), before)

        async def resized() -> list[KubePod]:
            now = await self._pods(action.service)
            for pod in now:
                if (reason := pod.resize_refused) is not None:
                    raise DriverError(f"{pod.name}: {reason}")
            late = [pod.name for pod in now if not pod.is_ready or not _has(pod, action.cpu_limit_cores)]
            if late or not now:
                raise NotYet(f"{', '.join(late[:1]) or 'no pod'} was not ready with the CPU limit")
            return now

        async with undone_on_failure(f"{action.service} keeps its CPU limit", undo):
            pods = await wait_for(resized, self._settings.healthy_seconds)
        return ActionResult(
            what=f"limited each pod of {action.service} to {describe_cores(action.cpu_limit_cores)}",
            before=msgspec.json.encode(before),
            containers=tuple(sorted(id_ for pod in pods for id_ in pod.containers)),
        )

    async def unresize(self, action: Resize, done: ActionResult) -> None:
        pods = await self._pods(action.service)
        if done.before and any(_has(pod, action.cpu_limit_cores) for pod in pods):
            await self._apply(pods, msgspec.json.decode(done.before, type=_Resources))

    async def _apply(self, pods: list[KubePod], resources: _Resources) -> None:
        containers = [{"name": name, "resources": each} for name, each in resources.items()]
        for pod in pods:
            await self._server.resize(pod, containers)

    async def _pods(self, service: str) -> list[KubePod]:
        """Return the pods of a workload, including those that are being deleted."""
        pods = await self._server.pods()
        return [pod for pod in pods if pod.workload == service and not pod.has_ended]

    async def node(self, name: str) -> NodeView:
        node = await self._server.node(name)
        is_on = node.ready and OFF_LABEL not in node.metadata.annotations
        return NodeView(
            name=name,
            on=is_on,
            ready=node.ready,
            accepts=not node.spec.unschedulable,
            labels=node.metadata.annotations,
        )

    async def drain(self, name: str) -> Callable[[], Awaitable[None]]:
        node, pods = await asyncio.gather(self._server.node(name), self._server.pods())
        _require_switchable(node, pods)
        if not node.spec.unschedulable:
            await self._change_node(name, {DRAINED_LABEL: "true"}, unschedulable=True)

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
        await self._change_node(name, {OFF_LABEL: "true"})

    async def activate(self, name: str) -> None:
        labels = (await self._server.node(name)).metadata.annotations
        if DRAINED_LABEL in labels:
            await self._change_node(name, {DRAINED_LABEL: None, OFF_LABEL: None}, unschedulable=False)
        elif OFF_LABEL in labels:  # and someone else cordoned it
            await self._change_node(name, {OFF_LABEL: None})

    async def _change_node(self, name: str, labels: dict[str, str | None], **spec: bool) -> None:
        await self._server.change_node(name, {"metadata": {"annotations": labels}, "spec": spec})


def _evicted(pod: KubePod, peers: Iterable[KubePod]) -> _Evicted:
    return _Evicted(pod.name, pod.metadata.uid, pod.workload, tuple(each.metadata.uid for each in peers))


def _limited(pod: KubePod) -> _Resources:
    """Return the resources of the containers that have limits."""
    return {
        each.name: {"limits": dict(each.resources.limits), "requests": dict(each.resources.requests)}
        for each in pod.spec.containers
        if each.resources.limits
    }


def _find(pods: tuple[KubePod, ...], container: str, node: str) -> KubePod | None:
    pod = next((each for each in pods if each.lives and container in each.containers), None)
    return None if pod is None or pod.spec.node_name != node else pod


def _has(pod: KubePod, cores: float) -> bool:
    now = pod.actual_cpu_limit
    return now is not None and abs(now - cores) <= _ROUNDING_CORES * len(pod.spec.containers)


def _resources_with(pod: KubePod, cores: float) -> _Resources:
    """Return the resources of containers with which a pod has this CPU limit. Raise `DriverError`.

    Containers share it as they do now. A container that requests as much as its limit still does, because a
    change in place must not change the quality-of-service class of the pod.
    """
    containers = pod.spec.containers
    limits = [sum_quantities([each.resources.limits]).cpu_cores for each in containers]
    now = sum_quantities(each.resources.limits for each in containers).cpu_cores
    if now is None and len(containers) > 1:
        raise DriverError(f"{pod.name} has several containers: give each a CPU limit first")
    changes: _Resources = {}
    for each, limit in zip(containers, limits, strict=True):
        share = 1.0 if now is None or limit is None else limit / now
        cpu = {"cpu": f"{max(1, round(1000 * share * cores))}m"}
        is_guaranteed = (
            limit is not None and each.resources.requests.get("cpu") == each.resources.limits["cpu"]
        )
        changes[each.name] = {"limits": cpu, "requests": cpu} if is_guaranteed else {"limits": cpu}
    return changes


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
