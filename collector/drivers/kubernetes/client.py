"""What is asked and ordered of the API server, through the official client."""

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

Told = TypeVar("Told")


class ApiServer:
    """The API server of a cluster; made by `connect`."""

    def __init__(self, client: Any, api: Any, seconds: float) -> None:  # noqa: ANN401 - an extra, not always there
        self._client = client
        self._core = client.CoreV1Api(api)
        self._seconds = seconds

    async def nodes(self) -> tuple[KubeNode, ...]:
        return (await self._ask(KubeNodeList, self._core.list_node)).items

    async def node(self, name: str) -> KubeNode:
        return await self._ask(KubeNode, self._core.read_node, name)

    async def pods(self, node: str = "") -> tuple[KubePod, ...]:
        """All pods, or those on a node."""
        selector = {"field_selector": f"spec.nodeName={node}"} if node else {}
        return (await self._ask(KubePodList, self._core.list_pod_for_all_namespaces, **selector)).items

    async def evict(self, pod: KubePod) -> None:
        """Ask for a pod's end; raises `DriverError` while a disruption budget forbids it."""
        name, namespace = pod.metadata.name, pod.metadata.namespace
        eviction = self._client.V1Eviction(
            api_version="policy/v1",
            kind="Eviction",
            metadata=self._client.V1ObjectMeta(name=name, namespace=namespace),
        )
        await self._ask(dict[str, Any], self._core.create_namespaced_pod_eviction, name, namespace, eviction)

    async def change_node(self, name: str, change: dict[str, Any]) -> None:
        """Merge a change into a node; None takes a key away."""
        await self._ask(KubeNode, self._core.patch_node, name, change)

    async def _ask(self, kind: type[Told], call: Callable[..., Any], *arguments: Any, **named: Any) -> Told:  # noqa: ANN401 - as the client takes them
        def ask() -> bytes:
            answer = call(*arguments, **named, _preload_content=False, _request_timeout=self._seconds)
            with contextlib.closing(answer):
                said: bytes = answer.data
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    raise DriverError(_refusal(answer.status, said))
                return said

        # The client waits for each answer; its models are not asked for, because reading them takes longer.
        with self._understood():
            return msgspec.json.decode(await asyncio.to_thread(ask), type=kind)

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - comes with the client

        try:
            yield
        except self._client.ApiException as error:
            raise DriverError(_refusal(error.status, error.body or error.reason)) from error
        except (HTTPError, OSError) as error:
            raise DriverError(f"Kubernetes' API server does not answer ({error})") from error
        except msgspec.DecodeError as error:
            raise DriverError(f"that is no answer of Kubernetes' API server ({error})") from error


def _refusal(status: int | None, said: bytes | str | None) -> str:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return "a disruption budget says not now"
    try:
        told = str(msgspec.json.decode(said or b"").get("message", ""))
    except (msgspec.DecodeError, AttributeError):
        told = said.decode(errors="replace") if isinstance(said, bytes) else said or ""
    return f"Kubernetes' API server refuses ({status}): {told}"


@asynccontextmanager
async def connect(settings: DriverConfig) -> AsyncIterator[ApiServer]:
    """The API server while the block runs; raises `UserError` without the client, or without an address."""
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
        raise UserError(f"cannot tell where Kubernetes is ({error}): set driver.kubeconfig") from error
    with client.ApiClient(configuration) as api:
        yield ApiServer(client, api, settings.request_seconds)
