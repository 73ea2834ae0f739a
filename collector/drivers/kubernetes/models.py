"""Responses of the API server about nodes and pods. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from collector.common.labels import STOPPED_LABEL, parse_stopped_replicas
from collector.common.quantities import parse_quantity
from wire.resources import Quantities

Item = TypeVar("Item")

HOSTNAME = "kubernetes.io/hostname"
_MIRROR = "kubernetes.io/config.mirror"
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_CLOSING = frozenset({"NoSchedule", "NoExecute"})


class _Model(msgspec.Struct, rename="camel", frozen=True):
    """Base of the models: camel case, with defaults for omitted fields."""


class KubeList(_Model, Generic[Item], frozen=True):
    """A list of objects."""

    items: tuple[Item, ...] = ()


class _Cause(_Model, frozen=True):
    reason: str = ""


class _Details(_Model, frozen=True):
    causes: tuple[_Cause, ...] = ()


class KubeRefusal(_Model, frozen=True):
    """The `Status` with which the API server refuses a request."""

    message: str = ""
    details: _Details = _Details()

    @property
    def is_by_disruption_budget(self) -> bool:
        """Whether evictions exceed a budget. Its status code, 429, also stands for too many requests."""
        return any(cause.reason == "DisruptionBudget" for cause in self.details.causes)


class Owner(_Model, frozen=True):
    """The controller that replaces a pod."""

    kind: str
    name: str
    controller: bool = False


class Meta(_Model, frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None


class Condition(_Model, frozen=True):
    """A condition of a node or pod."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


class _Taint(_Model, frozen=True):
    key: str
    effect: str = ""


class _NodeSpec(_Model, frozen=True):
    unschedulable: bool = False
    taints: tuple[_Taint, ...] = ()


class _NodeStatus(_Model, frozen=True):
    conditions: tuple[Condition, ...] = ()


class KubeNode(_Model, frozen=True):
    """A node."""

    metadata: Meta
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


class _Resources(_Model, frozen=True):
    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class _Container(_Model, frozen=True):
    name: str = ""
    image: str = ""
    resources: _Resources = _Resources()


class _LabelSelector(_Model, frozen=True):
    match_labels: dict[str, str] = {}


class _AffinityTerm(_Model, frozen=True):
    topology_key: str = ""
    label_selector: _LabelSelector | None = None


class _PodAntiAffinity(_Model, frozen=True):
    required: tuple[_AffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )


class _Affinity(_Model, frozen=True):
    pod_anti_affinity: _PodAntiAffinity | None = None


class _PodSpec(_Model, frozen=True):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    volumes: tuple[dict[str, Any], ...] = ()
    containers: tuple[_Container, ...] = ()
    resources: _Resources = _Resources()
    """Resources of the whole pod; they replace the sum over its containers."""
    affinity: _Affinity | None = None


class _Running(_Model, frozen=True):
    started_at: datetime | None = None


class _ContainerState(_Model, frozen=True):
    running: _Running | None = None


class _ContainerStatus(_Model, frozen=True):
    container_id: str = msgspec.field(name="containerID", default="")
    state: _ContainerState = _ContainerState()
    resources: _Resources | None = None
    """Its actual limits; servers without in-place resize do not report them."""

    @property
    def id(self) -> str:
        """The runtime's id, without `containerd://`."""
        return self.container_id.rpartition("://")[2]

    @property
    def running_since(self) -> float | None:
        running = self.state.running
        return None if running is None else _unix_seconds(running.started_at)


class _PodStatus(_Model, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class KubePod(_Model, frozen=True):
    """A pod."""

    metadata: Meta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def owner(self) -> Owner | None:
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
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def is_static(self) -> bool:
        """Whether the kubelet manages it, and the API server only mirrors it."""
        return _MIRROR in self.metadata.annotations

    @property
    def lives(self) -> bool:
        return self.metadata.deletion_timestamp is None and self.status.phase in {"Pending", "Running"}

    @property
    def has_ended(self) -> bool:
        """Whether its containers have ended for good."""
        return self.status.phase in {"Succeeded", "Failed"}

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
    def is_ready(self) -> bool:
        return self.lives and _holds(self.status.conditions, "Ready")

    @property
    def requests(self) -> Quantities:
        """The requests as the scheduler counts them: a limit is no request, and an omitted request is 0."""
        cpu, memory = (self._request(resource) for resource in ("cpu", "memory"))
        return Quantities(cpu, round(memory))

    def _request(self, resource: str) -> float:
        whole = self.spec.resources.requests.get(resource)
        if whole is not None:
            return amount(whole)
        return sum(amount(each.resources.requests.get(resource, 0)) for each in self.spec.containers)

    @property
    def containers(self) -> tuple[str, ...]:
        """The runtime's ids."""
        return tuple(status.id for status in self.status.container_statuses if status.id)

    @property
    def slot(self) -> str | None:
        """Its number in a StatefulSet, or its node in a DaemonSet; None for all others."""
        owner = self.owner
        if owner is not None and owner.kind == "StatefulSet":
            return self.metadata.name.removeprefix(f"{owner.name}-")
        return self.spec.node_name or None if self.is_daemon else None

    @property
    def spreads(self) -> bool:
        """Whether no other pod of its workload may run on its node."""
        affinity = self.spec.affinity
        terms = (
            ()
            if affinity is None or affinity.pod_anti_affinity is None
            else affinity.pod_anti_affinity.required
        )
        return any(
            term.topology_key == HOSTNAME
            and term.label_selector is not None
            and term.label_selector.match_labels.items() <= self.metadata.labels.items()
            for term in terms
        )

    @property
    def created_at(self) -> float | None:
        return _unix_seconds(self.metadata.creation_timestamp)


class _Template(_Model, frozen=True):
    metadata: Meta = Meta()
    spec: _PodSpec = _PodSpec()


class _WorkloadSpec(_Model, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class _WorkloadStatus(_Model, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0


class KubeWorkload(_Model, frozen=True):
    """A Deployment or StatefulSet, or the subresource `scale` of one."""

    metadata: Meta = Meta()
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

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


def amount(text: str | float) -> float:
    """Return a quantity of Kubernetes as a number."""
    return float(parse_quantity(str(text)))


def sum_quantities(resources: Iterable[Mapping[str, str | int | float]]) -> Quantities:
    """Sum over the containers of a pod; unset unless every container has a value."""
    listed = list(resources)
    cpus = [amount(each["cpu"]) for each in listed if "cpu" in each]
    memory = [amount(each["memory"]) for each in listed if "memory" in each]
    return Quantities(
        sum(cpus) if cpus and len(cpus) == len(listed) else None,
        round(sum(memory)) if memory and len(memory) == len(listed) else None,
    )


def _unix_seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _holds(conditions: Iterable[Condition], kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions)
