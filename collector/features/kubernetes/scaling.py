"""Changes of a workload: its number of replicas, and the CPU limit of its pods.

The limit is changed in place, by the subresource `resize` of pods, where the server has it. New pods then
still get the limit of the template. Elsewhere the template changes, and the controller replaces the pods.
"""

from typing import Any

import msgspec

from collector.common.labels import STOPPED_LABEL
from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, DriverError
from collector.drivers.polling import NotYet, undone_on_failure, wait_for
from collector.features.kubernetes.client import ApiServer
from collector.features.kubernetes.models import KubePod, sum_quantities
from collector.policies.actions import Resize, Scale, describe_cores

_ROUNDING_CORES = 0.001
"""Kubernetes counts in thousandths of a core."""
_Resources = dict[str, dict[str, Any]]
"""Limits and requests of containers, by their names."""


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
        if await self._server.replicas(action.service) == action.replicas:
            await self._set_replicas(action, action.replicas_before, action.replicas)

    async def _set_replicas(self, action: Scale, replicas: int, before: int) -> str:
        """Set the number of replicas, and note those of an optional workload that stops; return its kind."""
        if action.sheds:
            await self._server.annotate(action.service, {STOPPED_LABEL: None if replicas else str(before)})
        return await self._server.scale(action.service, replicas)

    async def resize(self, action: Resize) -> ActionResult:
        """Change the CPU limit of all pods of a workload; return when all pods have it."""
        pods = await self._pods(action.service)
        if not pods:
            raise DriverError(f"{action.service} has no pods")
        before = {
            each.name: {"limits": dict(each.resources.limits), "requests": dict(each.resources.requests)}
            for each in pods[0].spec.containers
            if each.resources.limits
        }
        wanted = _resources_with(pods[0], action.cpu_limit_cores)
        how = await self._apply(action.service, pods, wanted)

        async def undo() -> None:
            await self._apply(action.service, await self._pods(action.service), before)

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
            what=f"limited each pod of {action.service} to {describe_cores(action.cpu_limit_cores)}, {how}",
            before=msgspec.json.encode(before),
            containers=tuple(sorted(id_ for pod in pods for id_ in pod.containers)),
        )

    async def unresize(self, action: Resize, done: ActionResult) -> None:
        """Restore the CPU limits of the pods, unless someone changed them since."""
        pods = await self._pods(action.service)
        if done.before and any(_has(pod, action.cpu_limit_cores) for pod in pods):
            await self._apply(action.service, pods, msgspec.json.decode(done.before, type=_Resources))

    async def _apply(self, service: str, pods: list[KubePod], resources: _Resources) -> str:
        """Set the resources of containers, and describe how."""
        containers = [{"name": name, "resources": each} for name, each in resources.items()]
        for pod in pods:
            if not await self._server.resize(pod, containers):
                await self._server.change_template(service, containers)
                return "by its template"
        return "in place"

    async def _pods(self, service: str) -> list[KubePod]:
        """Return the pods of a workload, including those that are being deleted."""
        pods = await self._server.pods()
        return [pod for pod in pods if pod.workload == service and not pod.has_ended]


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
