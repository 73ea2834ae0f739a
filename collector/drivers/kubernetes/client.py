"""Requests to the API server, through the official client."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec

from collector.config import DriverConfig
from collector.drivers.interface import DriverError
from collector.drivers.kubernetes.models import KubeNode, KubeNodeList, KubePod, KubePodList
from wire.errors import UserError

Response = TypeVar("Response")


class ApiServer:
    """The API server of a cluster; see `connect`."""

    def __init__(self, client: Any, api: Any, seconds: float) -> None:  # noqa: ANN401 - an extra, not always there
        self._client = client
        self._core = client.CoreV1Api(api)
        self._seconds = seconds

    async def nodes(self) -> tuple[KubeNode, ...]:
        return (await self._request(KubeNodeList, self._core.list_node)).items

    async def node(self, name: str) -> KubeNode:
        return await self._request(KubeNode, self._core.read_node, name)

    async def pods(self, node: str = "") -> tuple[KubePod, ...]:
        """Return all pods, or those on a node."""
        selector = {"field_selector": f"spec.nodeName={node}"} if node else {}
        return (await self._request(KubePodList, self._core.list_pod_for_all_namespaces, **selector)).items

    async def evict(self, pod: KubePod) -> None:
        """Evict a pod. Raise `DriverError` while a disruption budget forbids it."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        eviction = self._client.V1Eviction(
            api_version="policy/v1",
            kind="Eviction",
            metadata=self._client.V1ObjectMeta(name=name, namespace=namespace),
        )
        await self._request(
            dict[str, Any], self._core.create_namespaced_pod_eviction, name, namespace, eviction
        )

    async def change_node(self, name: str, change: dict[str, Any]) -> None:
        """Merge a change into a node; None removes a key."""
        await self._request(KubeNode, self._core.patch_node, name, change)

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
                    raise DriverError(_refusal(response.status, body))
                return body

        # The client blocks. Its own models are slow to parse.
        with self._driver_errors():
            return msgspec.json.decode(await asyncio.to_thread(send), type=kind)

    @contextlib.contextmanager
    def _driver_errors(self) -> Iterator[None]:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - comes with the client

        try:
            yield
        except self._client.ApiException as error:
            raise DriverError(_refusal(error.status, error.body or error.reason)) from error
        except (HTTPError, OSError) as error:
            raise DriverError(f"the API server does not answer ({error})") from error
        except msgspec.DecodeError as error:
            raise DriverError(f"invalid response of the API server ({error})") from error


def _refusal(status: int | None, body: bytes | str | None) -> str:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "a disruption budget forbids it at present"
    try:
        message = str(msgspec.json.decode(body or b"").get("message", ""))
    except (msgspec.DecodeError, AttributeError):
        message = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    return f"the API server refuses ({status}): {message}"


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
        raise UserError(f"no configuration of Kubernetes found ({error}): set driver.kubeconfig") from error
    with client.ApiClient(configuration) as api:
        yield ApiServer(client, api, settings.request_seconds)
