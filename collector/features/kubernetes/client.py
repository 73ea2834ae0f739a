"""Requests to the API server, through the official client."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from collector.act.drivers.interface import DriverError, RefusedError
from collector.config import DriverConfig
from collector.features.kubernetes.models import KubeList, KubeNode, KubePod, KubeWorkload
from wire.errors import INVALID_JSON, UserError

Response = TypeVar("Response")


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[dict[str, Any], ...] = ()


class _Refusal(msgspec.Struct, frozen=True):
    """The `Status` with which the API server refuses a request."""

    message: str = ""
    details: _Details = _Details()


class ApiServer:
    """The API server of a cluster; see `connect`."""

    def __init__(self, client: Any, api: Any, seconds: float) -> None:  # noqa: ANN401 - an extra, not always there
        self._client = client
        self._core = client.CoreV1Api(api)
        self._apps = client.AppsV1Api(api)
        self._seconds = seconds

    async def nodes(self) -> tuple[KubeNode, ...]:
        return (await self._request(KubeList[KubeNode], self._core.list_node)).items

    async def node(self, name: str) -> KubeNode:
        return await self._request(KubeNode, self._core.read_node, name)

    async def pods(self, node: str = "") -> tuple[KubePod, ...]:
        """Return all pods, or those on a node."""
        selector = {"field_selector": f"spec.nodeName={node}"} if node else {}
        return (
            await self._request(KubeList[KubePod], self._core.list_pod_for_all_namespaces, **selector)
        ).items

    async def evict(self, pod: KubePod) -> None:
        """Evict a pod. Raise `DriverError` while a disruption budget forbids it."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        metadata = {"name": name, "namespace": namespace}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await self._request(
            dict[str, Any], self._core.create_namespaced_pod_eviction, name, namespace, eviction
        )

    async def change_node(self, name: str, change: dict[str, Any]) -> None:
        """Merge a change into a node; None removes a key."""
        await self._request(KubeNode, self._core.patch_node, name, change)

    async def workloads(self) -> tuple[KubeWorkload, ...]:
        """Return all Deployments and StatefulSets, without those that the server does not permit to list."""
        found: list[KubeWorkload] = []
        for list_all in (
            self._apps.list_deployment_for_all_namespaces,
            self._apps.list_stateful_set_for_all_namespaces,
        ):
            with contextlib.suppress(RefusedError):
                found += (await self._request(KubeList[KubeWorkload], list_all)).items
        return tuple(found)

    async def replicas(self, service: str) -> int:
        """Return the number of replicas that a workload should have."""
        _, scale = await self._of_workload(service, "read_namespaced_{}_scale")
        return scale.spec.replicas

    async def scale(self, service: str, replicas: int) -> str:
        """Set the number of replicas of a workload, and return its kind."""
        kind, _ = await self._of_workload(
            service, "patch_namespaced_{}_scale", {"spec": {"replicas": replicas}}
        )
        return kind

    async def annotate(self, service: str, annotations: Mapping[str, str | None]) -> None:
        """Merge annotations into a workload; None removes one."""
        body = {"metadata": {"annotations": dict(annotations)}}
        await self._of_workload(service, "patch_namespaced_{}", body)

    async def resize(self, pod: KubePod, containers: list[dict[str, Any]]) -> None:
        """Change the resources of a pod in place, unless it has ended."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        body = {"spec": {"containers": containers}}
        try:
            await self._request(KubePod, self._core.patch_namespaced_pod_resize, name, namespace, body)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    async def _of_workload(
        self, service: str, method: str, *body: dict[str, Any]
    ) -> tuple[str, KubeWorkload]:
        """Send a request about a workload whose kind is unknown; return its kind and the response."""
        namespace, _, name = service.partition("/")
        if not name:
            raise DriverError(f"{service} is not a workload: write NAMESPACE/NAME")
        for kind in ("deployment", "stateful_set", "replica_set"):
            call = getattr(self._apps, method.format(kind))
            try:
                return kind, await self._request(KubeWorkload, call, name, namespace, *body)
            except RefusedError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        raise DriverError(f"there is no Deployment, StatefulSet or ReplicaSet {service}")

    async def _request(
        self,
        kind: type[Response],
        call: Callable[..., Any],
        *arguments: Any,  # noqa: ANN401 - as the client takes them
        **named: Any,  # noqa: ANN401 - likewise
    ) -> Response:
        def send() -> bytes:
            response = call(*arguments, **named, _preload_content=False, _request_timeout=self._seconds)
            with contextlib.closing(response):
                body: bytes = response.data
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise RefusedError(response.status, _refusal(response.status, body))
                return body

        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - comes with the client

        try:
            # The client blocks. Its own models are slow to parse.
            return msgspec.json.decode(await asyncio.to_thread(send), type=kind)
        except self._client.ApiException as error:
            raise RefusedError(error.status, _refusal(error.status, error.body or error.reason)) from error
        except (HTTPError, OSError) as error:
            raise DriverError(f"the API server does not answer ({error})") from error
        except INVALID_JSON as error:
            raise DriverError(f"invalid response of the API server ({error})") from error


def _refusal(status: int | None, body: bytes | str | None) -> str:
    try:
        refusal = msgspec.json.decode(body or b"", type=_Refusal)
    except INVALID_JSON:
        message = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    else:
        # Its status code, 429, also stands for too many requests.
        if any(cause.get("reason") == "DisruptionBudget" for cause in refusal.details.causes):
            return "a disruption budget currently forbids it"
        message = refusal.message
    return f"the API server refused the request ({status}): {message}"


@asynccontextmanager
async def connect(settings: DriverConfig) -> AsyncIterator[ApiServer]:
    """Connect while the block runs. Raise `UserError` without the client library or an address."""
    try:
        from kubernetes import client, config  # noqa: PLC0415 - an extra that only this driver needs
    except ImportError:
        raise UserError(
            "driver.name is kubernetes, but its client is not installed: pip install 'wattpack[kubernetes]'"
        ) from None
    loading: Any = config  # it has no types
    configuration = client.Configuration()
    configuration.retries = False
    try:
        if settings.kubeconfig:
            loading.load_kube_config(settings.kubeconfig, client_configuration=configuration)
        else:
            loading.load_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise UserError(f"no Kubernetes configuration found ({error}): set driver.kubeconfig") from error
    with client.ApiClient(configuration) as api:
        yield ApiServer(client, api, settings.request_seconds)
