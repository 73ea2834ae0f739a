"""Changes of a workload: its number of replicas, and the CPU limit of its pods.

The limit is changed in place, by the subresource `resize` of pods, where the server has it. New pods then
still get the limit of the template. Elsewhere the template changes, and the controller replaces the pods.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from collector.common.labels import STOPPED_LABEL
from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, DriverError
from collector.drivers.polling import NotYet, undone_on_failure, wait_for
from collector.features.kubernetes.client import ApiServer
from collector.features.kubernetes.models import KubePod
from collector.features.kubernetes.views import resources_with_cpu_limit
from collector.policies.actions import Resize, Scale, describe_cores

_ROUNDING_CORES = 0.001
"""Kubernetes counts in thousandths of a core."""


class _ResourcesBefore(msgspec.Struct, frozen=True):
    limits: dict[str, dict[str, Any]]
    """The resources of each container before the change, by its name."""


class KubernetesScaler:
    """Scales workloads, and changes the CPU limits of their pods."""

    def __init__(self, server: ApiServer, settings: DriverConfig) -> None:
        self._server = server
        self._settings = settings

    async def scale(self, action: Scale) -> ActionResult:
        """Give a workload this many replicas; return when all are ready and no other is left."""
        kind = await self._set_replicas(action, action.replicas, action.replicas_before)

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
        """Restore the number of replicas, unless someone changed it since."""
        namespace, name = _split(action.service)
        if await self._server.replicas(namespace, name) == action.replicas:
            await self._set_replicas(action, action.replicas_before, action.replicas)

    async def _set_replicas(self, action: Scale, replicas: int, before: int) -> str:
        """Set the number of replicas, and note those of an optional workload that stops; return its kind."""
        namespace, name = _split(action.service)
        if action.sheds:
            noted = None if replicas else str(before)
            await self._server.annotate(namespace, name, {STOPPED_LABEL: noted})
        return await self._server.scale(namespace, name, replicas)

    async def resize(self, action: Resize) -> ActionResult:
        """Change the CPU limit of all pods of a workload; return when all pods have it."""
        pods = await self._pods(action.service)
        if not pods:
            raise DriverError(f"{action.service} has no pods")
        before = _resources(pods[0])
        wanted = resources_with_cpu_limit(pods[0], action.cpu_limit_cores)
        how = await self._apply(action.service, pods, wanted)

        async def undo() -> None:
            await self._apply(action.service, await self._pods(action.service), before)

        async with undone_on_failure(f"{action.service} keeps its CPU limit", undo):
            pods = await self._wait(action.service, action.cpu_limit_cores)
        return ActionResult(
            what=f"limited each pod of {action.service} to {describe_cores(action.cpu_limit_cores)}, {how}",
            before=msgspec.json.encode(_ResourcesBefore(before)),
            containers=tuple(sorted(id_ for pod in pods for id_ in pod.containers)),
        )

    async def unresize(self, action: Resize, done: ActionResult) -> None:
        """Restore the CPU limits of the pods, unless someone changed them since."""
        pods = await self._pods(action.service)
        if done.before and any(_has(pod, action.cpu_limit_cores) for pod in pods):
            before = msgspec.json.decode(done.before, type=_ResourcesBefore)
            await self._apply(action.service, pods, before.limits)

    async def _apply(
        self, service: str, pods: list[KubePod], resources: Mapping[str, Mapping[str, Any]]
    ) -> str:
        """Set the resources of containers, and describe how."""
        containers = [{"name": name, "resources": each} for name, each in resources.items()]
        for pod in pods:
            if not await self._server.resize(pod, containers):
                namespace, name = _split(service)
                await self._server.change_template(namespace, name, containers)
                return "by its template"
        return "in place"

    async def _wait(self, service: str, cores: float) -> list[KubePod]:
        async def resized() -> list[KubePod]:
            pods = await self._pods(service)
            for pod in pods:
                if (reason := pod.resize_refused) is not None:
                    raise DriverError(f"{pod.name}: {reason}")
            late = [pod.name for pod in pods if not pod.is_ready or not _has(pod, cores)]
            if late or not pods:
                raise NotYet(f"{', '.join(late[:1]) or 'no pod'} was not ready with the CPU limit")
            return pods

        return await wait_for(resized, self._settings.healthy_seconds)

    async def _pods(self, service: str) -> list[KubePod]:
        """Return the pods of a workload, including those that are being deleted."""
        pods = await self._server.pods()
        return [pod for pod in pods if pod.workload == service and not pod.has_ended]


def _has(pod: KubePod, cores: float) -> bool:
    now = pod.actual_cpu_limit
    return now is not None and abs(now - cores) <= _ROUNDING_CORES * len(pod.spec.containers)


def _resources(pod: KubePod) -> dict[str, dict[str, Any]]:
    return {
        each.name: {"limits": dict(each.resources.limits), "requests": dict(each.resources.requests)}
        for each in pod.spec.containers
        if each.resources.limits
    }


def _split(service: str) -> tuple[str, str]:
    namespace, _, name = service.partition("/")
    if not name:
        raise DriverError(f"{service} is not a workload: write NAMESPACE/NAME")
    return namespace, name
