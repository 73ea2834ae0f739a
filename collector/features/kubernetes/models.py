"""Responses of the API server about nodes and pods. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from collector.common.labels import STOPPED_LABEL, parse_stopped_replicas
from collector.common.quantities import parse_quantity
from collector.features.kubernetes.objects import (
    KubernetesObject,
    ObjectMeta,
    OwnerReference,
    ResourceRequirements,
)
from wire.resources import Quantities

Item = TypeVar("Item")

HOSTNAME = "kubernetes.io/hostname"
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_CLOSING = frozenset({"NoSchedule", "NoExecute"})


class KubeList(KubernetesObject, Generic[Item], frozen=True, kw_only=True):
    """A list of objects."""

    items: tuple[Item, ...] = ()


class _Cause(KubernetesObject, frozen=True, kw_only=True):
    reason: str = ""


class _Details(KubernetesObject, frozen=True, kw_only=True):
    causes: tuple[_Cause, ...] = ()


class KubeRefusal(KubernetesObject, frozen=True, kw_only=True):
    """The `Status` with which the API server refuses a request."""

    message: str = ""
    details: _Details = _Details()

    @property
    def is_by_disruption_budget(self) -> bool:
        """Whether evictions exceed a budget. Its status code, 429, also stands for too many requests."""
        return any(cause.reason == "DisruptionBudget" for cause in self.details.causes)


class Condition(KubernetesObject, frozen=True, kw_only=True):
    """A condition of a node or pod."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


class _Taint(KubernetesObject, frozen=True, kw_only=True):
    key: str
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


class _Container(KubernetesObject, frozen=True, kw_only=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()


class _LabelSelector(KubernetesObject, frozen=True, kw_only=True):
    match_labels: dict[str, str] = msgspec.field(default_factory=dict)


class _AffinityTerm(KubernetesObject, frozen=True, kw_only=True):
    topology_key: str = ""
    label_selector: _LabelSelector | None = None


class _PodAntiAffinity(KubernetesObject, frozen=True, kw_only=True):
    required: tuple[_AffinityTerm, ...] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=()
    )


class _Affinity(KubernetesObject, frozen=True, kw_only=True):
    pod_anti_affinity: _PodAntiAffinity | None = None


class _PodSpec(KubernetesObject, frozen=True, kw_only=True):
    node_name: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    volumes: tuple[dict[str, Any], ...] = ()
    containers: tuple[_Container, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    """Resources of the whole pod; they replace the sum over its containers."""
    affinity: _Affinity | None = None


class _Running(KubernetesObject, frozen=True, kw_only=True):
    started_at: datetime | None = None


class _ContainerState(KubernetesObject, frozen=True, kw_only=True):
    running: _Running | None = None


class _ContainerStatus(KubernetesObject, frozen=True, kw_only=True):
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
        running = self.state.running
        return None if running is None else _unix_seconds(running.started_at)


class _PodStatus(KubernetesObject, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class KubePod(KubernetesObject, frozen=True, kw_only=True):
    """A pod."""

    metadata: ObjectMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def name(self) -> str:
        return self.metadata.full_name

    @property
    def workload(self) -> str:
        return self.metadata.workload

    @property
    def owner(self) -> OwnerReference | None:
        return self.metadata.owner

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
        return self.spec.node_name or None if self.metadata.is_daemon else None

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


class _Template(KubernetesObject, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()


class _WorkloadSpec(KubernetesObject, frozen=True, kw_only=True):
    replicas: int = 1
    template: _Template = _Template()


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
