"""Evictions of pods that move or make room for others, and starts of waiting pods."""

from collector.config import DriverConfig
from collector.drivers.interface import ActionResult, DriverError
from collector.drivers.kubernetes.client import ApiServer
from collector.drivers.kubernetes.models import KubePod
from collector.drivers.kubernetes.views import reason_to_run, service_view
from collector.drivers.polling import poll_until
from collector.policies.actions import short_id


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

    async def stop(self, container: str, source: str) -> ActionResult:
        """Evict the pod of a container for more urgent ones; return when it has ended.

        Its controller creates another pod at once, which waits until it fits. The extender keeps the room for
        the pod that it was made for.
        """
        pod = _find(await self._server.pods(), container)
        if pod is None or pod.spec.node_name != source:
            return ActionResult(what=f"{short_id(container)} no longer runs on {source}", nothing_to_do=True)
        if (reason := reason_to_run(pod)) is not None:
            raise DriverError(f"{pod.name} cannot wait: {reason}")
        await self._server.evict(pod)

        async def is_gone() -> bool:
            return pod.metadata.uid not in {each.metadata.uid for each in await self._server.pods(source)}

        try:
            await poll_until(is_gone, self._settings.drain_seconds)
        except TimeoutError:
            seconds = self._settings.drain_seconds
            raise DriverError(f"{pod.name} was evicted, but did not end within {seconds:g} s") from None
        return ActionResult(what=f"evicted {pod.name} from {source}: its replacement waits")

    async def start(self, uid: str, target: str) -> ActionResult:
        """Wait until kube-scheduler has started a waiting pod, for which the extender keeps room."""
        found: list[KubePod] = []

        async def is_ready() -> bool:
            found[:] = [each for each in await self._server.pods() if each.metadata.uid == uid]
            if not found or not found[0].lives:
                raise DriverError(f"pod {uid} is no longer pending")
            return found[0].is_ready

        try:
            await poll_until(is_ready, self._settings.healthy_seconds)
        except TimeoutError:
            [pod] = found
            raise DriverError(
                f"{pod.name} was not ready on {target} within {self._settings.healthy_seconds:g} s: check"
                " that kube-scheduler uses the extender"
            ) from None
        [pod] = found
        return ActionResult(what=f"{pod.name} started on {pod.spec.node_name}", containers=pod.containers)

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
            await poll_until(is_replaced, self._settings.healthy_seconds)
        except TimeoutError:
            raise DriverError(
                f"{pod.name} was evicted, but {pod.workload} was not ready again within "
                f"{self._settings.healthy_seconds:g} s; Kubernetes keeps trying"
            ) from None
        return new


def _find(pods: tuple[KubePod, ...], container: str) -> KubePod | None:
    return next((each for each in pods if each.lives and container in each.containers), None)
