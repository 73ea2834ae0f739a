"""Nodes, pods and workloads of the Kubernetes API, as far as they are read. Pure.

Kubernetes omits an empty map or list.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from collector.common.labels import STOPPED_LABEL, parse_stopped_replicas
from collector.features.kubernetes.quantities import parse_quantity
from wire.resources import Quantities

Item = TypeVar("Item")

HOSTNAME = "kubernetes.io/hostname"
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_CLOSING = frozenset({"NoSchedule", "NoExecute"})
_MIRROR, _SOURCE, _API = "kubernetes.io/config.mirror", "kubernetes.io/config.source", "api"
_LARGEST = 2**62


class KubernetesObject(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Base of the objects: camel case, with defaults for omitted fields."""


class KubeList(KubernetesObject, Generic[Item], frozen=True, kw_only=True):
    """A list of objects."""

    items: tuple[Item, ...] = ()


class OwnerReference(KubernetesObject, frozen=True, kw_only=True):
    """The owner of a pod, such as a ReplicaSet."""

    kind: str = ""
    name: str = ""
    controller: bool = False


class ObjectMeta(KubernetesObject, frozen=True, kw_only=True):
    """Metadata of an object."""

    name: str = ""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None
    """None unless its deletion was requested."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"


class Condition(KubernetesObject, frozen=True, kw_only=True):
    """A condition of a node or pod."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


class _Taint(KubernetesObject, frozen=True, kw_only=True):
    effect: str = ""


class _NodeSpec(KubernetesObject, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[_Taint, ...] = ()


class _NodeStatus(KubernetesObject, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class KubeNode(KubernetesObject, frozen=True, kw_only=True):
    """A node."""

    metadata: ObjectMeta
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def ready(self) -> bool:
        return _holds(self.status.conditions, "Ready")

    @property
    def accepts(self) -> bool:
        """Whether it accepts any pod: it is neither cordoned nor tainted."""
        return not self.spec.unschedulable and not any(taint.effect in _CLOSING for taint in self.spec.taints)

    @property
    def is_manager(self) -> bool:
        return _CONTROL_PLANE in self.metadata.labels


class ResourceRequirements(KubernetesObject, frozen=True, kw_only=True):
    """Requests and limits of a container, or of a whole pod."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class _Container(KubernetesObject, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class _PodSpec(KubernetesObject, frozen=True, kw_only=True):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    volumes: tuple[dict[str, Any], ...] = ()
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    """Resources of the whole pod; they replace the sum over its containers."""
    overhead: dict[str, str | int | float] = {}
    affinity: dict[str, Any] = {}
    priority: int = 0
    priority_class_name: str = ""


class _Running(KubernetesObject, frozen=True, kw_only=True):
    started_at: datetime | None = None


class _ContainerState(KubernetesObject, frozen=True, kw_only=True):
    running: _Running | None = None


class KubeContainer(KubernetesObject, frozen=True, kw_only=True):
    """The state of a container of a pod."""

    container_id: str = msgspec.field(name="containerID", default="")
    state: _ContainerState = _ContainerState()
    resources: ResourceRequirements | None = None
    """Its actual limits; servers without in-place resize do not report them."""

    @property
    def id(self) -> str:
        """The runtime's id, without `containerd://`."""
        return self.container_id.rpartition("://")[2]

    @property
    def running_since(self) -> float | None:
        return None if self.state.running is None else _unix_seconds(self.state.running.started_at)


class _PodStatus(KubernetesObject, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[KubeContainer, ...] = ()
    nominated_node_name: str | None = None
    """The node on which pods were preempted for this pod."""


class KubePod(KubernetesObject, frozen=True, kw_only=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def name(self) -> str:
        return self.metadata.full_name

    @property
    def owner(self) -> OwnerReference | None:
        """The controller that replaces it."""
        return next((owner for owner in self.metadata.owner_references if owner.controller), None)

    @property
    def workload(self) -> str:
        """Its workload, `namespace/name`; the Deployment rather than its ReplicaSet."""
        if (owner := self.owner) is None:
            return self.name
        revision = self.metadata.labels.get("pod-template-hash")
        name = owner.name.removesuffix(f"-{revision}") if owner.kind == "ReplicaSet" else owner.name
        return f"{self.metadata.namespace}/{name}"

    @property
    def is_daemon(self) -> bool:
        """Whether it runs on every node."""
        return any(owner.kind == "DaemonSet" for owner in self.metadata.owner_references)

    @property
    def is_static(self) -> bool:
        """Whether the kubelet manages it, and the API server only mirrors it."""
        notes = self.metadata.annotations
        return _MIRROR in notes or notes.get(_SOURCE, _API) != _API

    @property
    def is_bound(self) -> bool:
        """Whether it belongs to one node."""
        return self.is_daemon or self.is_static

    @property
    def lives(self) -> bool:
        return self.metadata.deletion_timestamp is None and self.status.phase in {"Pending", "Running"}

    @property
    def has_ended(self) -> bool:
        """Whether its containers have ended for good."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_ready(self) -> bool:
        return self.lives and _holds(self.status.conditions, "Ready")

    @property
    def resize_refused(self) -> str | None:
        """Why its node cannot resize it; None if it can, or has."""
        return next(
            (
                each.message or each.reason
                for each in self.status.conditions
                if each.type == "PodResizePending" and each.status == "True" and each.reason == "Infeasible"
            ),
            None,
        )

    @property
    def actual_cpu_limit(self) -> float | None:
        """The CPU limit of all its containers together, as its node has set it; None without one."""
        reported = [each.resources for each in self.status.container_statuses if each.resources is not None]
        limits = [each.limits for each in reported or [each.resources for each in self.spec.containers]]
        return sum_quantities(limits).cpu_cores

    @property
    def requests(self) -> Quantities:
        """The requests as the scheduler counts them. The API server has made a limit without one a request.

        They are set for the pod itself; otherwise they are the sum over its containers, or the request of its
        largest init container if that is higher.
        """
        return Quantities(self._request("cpu"), min(round(self._request("memory")), _LARGEST))

    def _request(self, resource: str) -> float:
        spec = self.spec
        overhead = _amount(spec.overhead, resource)
        if resource in spec.resources.requests:
            return _amount(spec.resources.requests, resource) + overhead
        request = sum(_amount(each.resources.requests, resource) for each in spec.containers)
        if spec.init_containers:
            starting = [(each, _amount(each.resources.requests, resource)) for each in spec.init_containers]
            # An init container that always restarts is a sidecar.
            request += sum(amount for each, amount in starting if each.restart_policy == "Always")
            request = max(request, *(amount for _, amount in starting))
        return request + overhead

    @property
    def containers(self) -> tuple[str, ...]:
        """The runtime's ids."""
        return tuple(status.id for status in self.status.container_statuses if status.id)

    @property
    def slot(self) -> str | None:
        """Its number in a StatefulSet, or its node in a DaemonSet; None for all others."""
        if self.owner is not None and self.owner.kind == "StatefulSet":
            return self.metadata.name.removeprefix(f"{self.owner.name}-")
        return self.spec.node_name or None if self.is_daemon else None

    @property
    def spreads(self) -> bool:
        """Whether no other pod of its workload may run on its node."""
        rules: dict[str, Any] = self.spec.affinity.get("podAntiAffinity") or {}
        return any(
            term.get("topologyKey") == HOSTNAME
            and term.get("labelSelector") is not None
            and (term["labelSelector"].get("matchLabels") or {}).items() <= self.metadata.labels.items()
            for term in rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        )

    @property
    def created_at(self) -> float | None:
        return _unix_seconds(self.metadata.creation_timestamp)


class _WorkloadSpec(KubernetesObject, frozen=True, kw_only=True):
    replicas: int = 1
    template: KubePod = KubePod()


class _WorkloadStatus(KubernetesObject, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0


class KubeWorkload(KubernetesObject, frozen=True, kw_only=True):
    """A Deployment or StatefulSet, or the subresource `scale` of one."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()

    @property
    def name(self) -> str:
        return self.metadata.full_name

    @property
    def described_pod(self) -> KubePod:
        """A pod as its template describes it."""
        owner = OwnerReference(kind="Deployment", name=self.metadata.name, controller=True)
        pod, namespace = self.spec.template, self.metadata.namespace
        metadata = msgspec.structs.replace(pod.metadata, namespace=namespace, owner_references=(owner,))
        return msgspec.structs.replace(pod, metadata=metadata)

    @property
    def stopped_replicas(self) -> int:
        """How many replicas it had before brownout stopped it; 0 if it is not stopped."""
        noted = self.metadata.annotations.get(STOPPED_LABEL, "")
        return 0 if self.spec.replicas else parse_stopped_replicas(noted)

    @property
    def is_updating(self) -> bool:
        """Whether pods are being replaced or started."""
        status = self.status
        return not self.spec.replicas == status.replicas == status.ready_replicas == status.updated_replicas


def sum_quantities(resources: Iterable[Mapping[str, str | int | float]]) -> Quantities:
    """Sum over the containers of a pod; unset unless every container has a value."""
    listed = list(resources)
    cpu, memory = (
        sum(_amount(each, name) for each in listed)
        if listed and all(name in each for each in listed)
        else None
        for name in ("cpu", "memory")
    )
    return Quantities(cpu, None if memory is None else round(memory))


def _amount(resources: Mapping[str, str | int | float], name: str) -> float:
    """Return a quantity of Kubernetes as a number; 0 if it is omitted."""
    return max(float(parse_quantity(str(resources[name]))), 0.0) if name in resources else 0.0


def _unix_seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _holds(conditions: Iterable[Condition], kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions)
