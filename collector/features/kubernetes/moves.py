"""Evictions of pods that move or make room for others, and starts of waiting pods."""

from collector.config import DriverConfig
from collector.drivers.interface import MAX_STOP_SECONDS, ActionResult, DriverError
from collector.drivers.polling import NotYet, wait_for
from collector.features.kubernetes.client import ApiServer
from collector.features.kubernetes.models import KubePod
from collector.features.kubernetes.views import reason_to_run, service_view


class Evictor:
    """Evicts pods."""

    def __init__(self, server: ApiServer, settings: DriverConfig) -> None:
        self._server = server
        self._settings = settings

    async def evict(self, container: str, source: str) -> ActionResult:
        """Evict the pod of a container from a node; return when a new pod is ready."""
        pods = await self._server.pods()
        pod = _find(pods, container)
        if pod is None or pod.spec.node_name != source:
            return ActionResult.gone(container, source)
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

    async def stop(self, container: str, source: str) -> ActionResult:
        """Evict the pod of a container for more urgent ones; return when it has ended.

        Its controller creates another pod at once, which waits until it fits. The extender keeps the room for
        the pod that it was made for.
        """
        pod = _find(await self._server.pods(), container)
        if pod is None or pod.spec.node_name != source:
            return ActionResult.gone(container, source)
        if (reason := reason_to_run(pod)) is not None:
            raise DriverError(f"{pod.name} cannot wait: {reason}")
        await self._server.evict(pod)

        async def is_gone() -> None:
            if pod.metadata.uid in {each.metadata.uid for each in await self._server.pods(source)}:
                raise NotYet(f"{pod.name} was evicted, but has not ended")

        await wait_for(is_gone, MAX_STOP_SECONDS)
        return ActionResult(what=f"evicted {pod.name} from {source}: its replacement waits")

    async def start(self, uid: str, target: str) -> ActionResult:
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

    async def _replaced(self, pod: KubePod, peers: list[KubePod]) -> list[KubePod]:
        """Wait until a pod is gone and as many as before are ready; return the new ones."""
        old = {each.metadata.uid for each in peers}

        async def replacements() -> list[KubePod]:
            pods = await self._server.pods()
            ready = [each for each in pods if each.workload == pod.workload and each.is_ready]
            new = [each for each in ready if each.metadata.uid not in old]
            is_gone = pod.metadata.uid not in {each.metadata.uid for each in pods}
            if not (is_gone and new and len(ready) >= len(peers)):
                raise NotYet(f"{pod.name} was evicted, but {pod.workload} is not ready again")
            return new

        return await wait_for(replacements, self._settings.healthy_seconds)


def _find(pods: tuple[KubePod, ...], container: str) -> KubePod | None:
    return next((each for each in pods if each.lives and container in each.containers), None)
