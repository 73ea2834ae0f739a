"""Nodes of Kubernetes that are cordoned, emptied and uncordoned."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from collector.common.labels import DRAINED_LABEL, OFF_LABEL
from collector.drivers.interface import DriverError
from collector.drivers.polling import NotYet
from collector.drivers.power import NodePower
from collector.features.kubernetes.client import ApiServer
from collector.features.kubernetes.models import KubeNode, KubePod
from collector.features.kubernetes.views import service_view


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


def drained_nodes(nodes: Iterable[KubeNode]) -> list[str]:
    """Return the nodes that a collector cordoned and did not switch off."""
    labels = {node.name: node.metadata.annotations for node in nodes}
    return [name for name, each in labels.items() if DRAINED_LABEL in each and OFF_LABEL not in each]


def _require_switchable(node: KubeNode, pods: Iterable[KubePod]) -> None:
    if node.is_manager:
        raise DriverError(f"{node.name} stays on: it belongs to the control plane")
    workloads: dict[str, list[KubePod]] = {}
    for pod in pods:
        if pod.lives:
            workloads.setdefault(pod.workload, []).append(pod)
    for name, members in workloads.items():
        if not any(pod.spec.node_name == node.name and _must_leave(pod) for pod in members):
            continue
        if (stays := service_view(name, members).stays) is not None:
            raise DriverError(f"{node.name} stays on: {name} runs there, and {stays}")


def _must_leave(pod: KubePod) -> bool:
    is_bound = pod.metadata.is_daemon or pod.metadata.is_static
    return not is_bound and pod.status.phase in {"Pending", "Running"}
