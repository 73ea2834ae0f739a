"""Switching nodes: cordon and empty before off; wait until ready before uncordoning."""

import asyncio
from collections.abc import Iterable

from collector.common.labels import DRAINED_LABEL, OFF_LABEL
from collector.config import DriverConfig
from collector.drivers.hooks import SWITCHED, boot, power_off_command, run_hook
from collector.drivers.interface import ActionResult, DriverError
from collector.drivers.kubernetes.client import ApiServer
from collector.drivers.kubernetes.models import KubeNode, KubePod
from collector.drivers.kubernetes.views import service_view
from collector.drivers.polling import poll_until


class KubernetesPower:
    """Switches nodes with the operator's commands."""

    def __init__(self, server: ApiServer, settings: DriverConfig) -> None:
        self._server = server
        self._settings = settings

    async def off(self, name: str) -> ActionResult:
        """Cordon a node, evict its pods within their disruption budgets, and switch it off."""
        command = power_off_command(self._settings, name)
        node, pods = await asyncio.gather(self._server.node(name), self._server.pods())
        if not node.ready or _is_off(node):
            return ActionResult(what=f"{name} is already off", nothing_to_do=True)
        _require_switchable(node, pods)
        if not node.spec.unschedulable:
            await self._server.change_node(name, _cordon(cordoned=True))
        try:
            await self._empty(name)
            await asyncio.sleep(self._settings.power_grace_seconds)
            await self._server.change_node(name, _labelled_off())
            await run_hook(command, name, self._settings.power_seconds)
        except DriverError:
            await self._uncordon(await self._server.node(name))
            raise
        return ActionResult(what=f"emptied {name} and switched it off", before=SWITCHED)

    async def on(self, name: str) -> ActionResult:
        """Switch a node on, and uncordon it unless someone else cordoned it."""
        node = await self._server.node(name)
        is_off = not node.ready or _is_off(node)
        if not is_off and not node.spec.unschedulable:
            return ActionResult(what=f"{name} is already on", nothing_to_do=True)

        async def is_ready() -> bool:
            return (await self._server.node(name)).ready

        if is_off:
            await boot(self._settings, name, is_ready)
        await self._uncordon(node)
        return ActionResult(what=f"switched {name} on", before=SWITCHED)

    async def release(self, nodes: Iterable[KubeNode]) -> tuple[str, ...]:
        """Uncordon nodes that were cordoned but not switched off."""
        left = [node for node in nodes if DRAINED_LABEL in node.metadata.annotations and not _is_off(node)]
        for node in left:
            await self._uncordon(node)
        return tuple(f"uncordoned {node.name}, which was emptied but not switched off" for node in left)

    async def _uncordon(self, node: KubeNode) -> None:
        marks = node.metadata.annotations
        if DRAINED_LABEL in marks:
            await self._server.change_node(node.name, _cordon(cordoned=False))
        elif OFF_LABEL in marks:  # and someone else cordoned it
            await self._server.change_node(node.name, {"metadata": {"annotations": {OFF_LABEL: None}}})

    async def _empty(self, name: str) -> None:
        why = ""

        async def is_empty() -> bool:
            nonlocal why
            left = [pod for pod in await self._server.pods(name) if _must_leave(pod)]
            for pod in left:
                if pod.metadata.deletion_timestamp is None:
                    try:
                        await self._server.evict(pod)
                    except DriverError as error:  # the budget may allow it once another pod is ready
                        why = f" ({pod.name}: {error})"
            return not left

        try:
            await poll_until(is_empty, self._settings.drain_seconds)
        except TimeoutError:
            seconds = self._settings.drain_seconds
            raise DriverError(f"{name} stays on: after {seconds:g} s it was not empty{why}") from None


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
    return not (pod.is_daemon or pod.is_static) and pod.status.phase in {"Pending", "Running"}


def _cordon(*, cordoned: bool) -> dict[str, object]:
    marks = {DRAINED_LABEL: "true"} if cordoned else {DRAINED_LABEL: None, OFF_LABEL: None}
    return {"metadata": {"annotations": marks}, "spec": {"unschedulable": cordoned}}


def _labelled_off() -> dict[str, object]:
    return {"metadata": {"annotations": {OFF_LABEL: "true"}}}


def _is_off(node: KubeNode) -> bool:
    return OFF_LABEL in node.metadata.annotations
