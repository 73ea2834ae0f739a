"""Responses of the API server about nodes and pods. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from collector.common.labels import ALLOWED, MOVE_LABEL, NEVER, NO_MOVE_LABEL, TALKS_TO_LABEL
from collector.common.quantities import parse_quantity
from collector.drivers.interface import Mode, NodeView, OrchestratorState, PendingView, ServiceView, TaskView
from wire.resources import Quantities

_HOSTNAME = "kubernetes.io/hostname"
_MIRROR = "kubernetes.io/config.mirror"
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_LOCAL_VOLUMES = ("hostPath", "emptyDir", "local")
_CLOSING = frozenset({"NoSchedule", "NoExecute"})


class _Model(msgspec.Struct, rename="camel", frozen=True):
    """Base of the models: camel case, with defaults for omitted fields."""


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
    """Of the whole pod; they replace the sum over its containers."""
    affinity: _Affinity | None = None


class _Running(_Model, frozen=True):
    started_at: datetime | None = None


class _ContainerState(_Model, frozen=True):
    running: _Running | None = None


class _ContainerStatus(_Model, frozen=True):
    container_id: str = msgspec.field(name="containerID", default="")
    state: _ContainerState = _ContainerState()

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
    def is_ready(self) -> bool:
        return self.lives and _holds(self.status.conditions, "Ready")

    @property
    def requests(self) -> Quantities:
        """The requests as the scheduler counts them: limits are none, and what is not requested is 0."""
        cpu, memory = (self._request(resource) for resource in ("cpu", "memory"))
        return Quantities(cpu, round(memory))

    def _request(self, resource: str) -> float:
        whole = self.spec.resources.requests.get(resource)
        if whole is not None:
            return _amount(whole)
        return sum(_amount(each.resources.requests.get(resource, 0)) for each in self.spec.containers)

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
            term.topology_key == _HOSTNAME
            and term.label_selector is not None
            and term.label_selector.match_labels.items() <= self.metadata.labels.items()
            for term in terms
        )

    @property
    def created_at(self) -> float | None:
        return _unix_seconds(self.metadata.creation_timestamp)


class KubeNodeList(_Model, frozen=True):
    """A list of nodes."""

    items: tuple[KubeNode, ...] = ()


class KubePodList(_Model, frozen=True):
    """A list of pods."""

    items: tuple[KubePod, ...] = ()


def view_of(nodes: Iterable[KubeNode], pods: Iterable[KubePod]) -> OrchestratorState:
    """Convert nodes and pods to the common state."""
    living = [pod for pod in pods if pod.lives]
    workloads: dict[str, list[KubePod]] = {}
    for pod in living:
        workloads.setdefault(pod.workload, []).append(pod)
    return OrchestratorState(
        nodes=tuple(
            NodeView(
                name=node.name,
                ready=node.ready,
                accepts=node.accepts,
                labels=node.metadata.labels,
                is_manager=node.is_manager,
            )
            for node in nodes
        ),
        services=tuple(service_view(name, members) for name, members in workloads.items()),
        tasks=tuple(
            TaskView(
                container=status.id,
                service=pod.workload,
                node=pod.spec.node_name,
                state=pod.status.phase.lower(),
                # The requests are those of the pod: they count once.
                reserve=pod.requests if place == 0 else Quantities(0.0, 0),
                task=pod.metadata.uid,
                slot=pod.slot,
                created_at=pod.created_at,
                running_since=status.running_since,
            )
            for pod in living
            if pod.spec.node_name
            for place, status in enumerate(each for each in pod.status.container_statuses if each.id)
        ),
        pending=tuple(_pending_view(pod) for pod in living if not pod.containers),
    )


def _pending_view(pod: KubePod) -> PendingView:
    return PendingView(
        id=pod.metadata.uid,
        service=pod.workload,
        slot=pod.slot,
        since=pod.created_at,
        node=pod.spec.node_name or None,
        requested=pod.requests,
        constraints=_constraints(pod),
        spread=pod.spreads,
        labels=pod.metadata.labels,
        reason=next((each.message for each in pod.status.conditions if each.status == "False"), ""),
    )


def _constraints(pod: KubePod) -> tuple[str, ...]:
    return tuple(f"{label}=={value}" for label, value in pod.spec.node_selector.items())


def service_view(name: str, pods: list[KubePod]) -> ServiceView:
    """Return a workload from its pods, which are alike."""
    pod = pods[0]
    containers = pod.spec.containers
    mode = Mode.GLOBAL if pod.is_daemon else Mode.ALONE if pod.owner is None else Mode.REPLICATED
    return ServiceView(
        name=name,
        mode=mode,
        replicas=len(pods),
        reserve=pod.requests,
        limit=_sum(container.resources.limits for container in containers),
        constraints=_constraints(pod),
        image=containers[0].image if containers else "",
        labels=_labels(pod),
        namespace=pod.metadata.namespace,
        stays=next(_reasons(pod, len(pods)), None),
        stops_to_move=True,  # an eviction comes first
    )


def _labels(pod: KubePod) -> Mapping[str, str]:
    """Return the labels of a pod, and an annotation whose value no label can have: it contains commas."""
    listed = pod.metadata.annotations.get(TALKS_TO_LABEL)
    return pod.metadata.labels if listed is None else {**pod.metadata.labels, TALKS_TO_LABEL: listed}


def _reasons(pod: KubePod, replicas: int) -> Iterator[str]:
    """Return why a pod must not move, the strongest reason first."""
    label = pod.metadata.labels.get(MOVE_LABEL)
    if label == NEVER:
        yield f"its label {MOVE_LABEL} is {NEVER}"
    yield from _immovable(pod)
    if label == ALLOWED:
        return
    for volume in pod.spec.volumes:
        if any(kind in volume for kind in _LOCAL_VOLUMES):
            yield f"it uses the volume {volume.get('name')}, which stays behind {NO_MOVE_LABEL}"
    if replicas <= 1:
        yield f"it has one replica {NO_MOVE_LABEL}"


def reason_to_run(pod: KubePod) -> str | None:
    """Return why a pod must not be stopped; None if it may, since another one replaces it."""
    if pod.is_daemon:
        return "it runs on every node"
    if pod.is_static:
        return "it is a static pod of its node"
    return "no controller would replace it" if pod.owner is None else None


def _immovable(pod: KubePod) -> Iterator[str]:
    """Return reasons that no label overrides."""
    if (reason := reason_to_run(pod)) is not None:
        yield reason
    if pod.owner is not None and pod.owner.kind == "Job":
        yield "it is a job, which would start over"
    if _HOSTNAME in pod.spec.node_selector:
        yield f"its node selector pins it to {pod.spec.node_selector[_HOSTNAME]}"


def _amount(text: str | float) -> float:
    return float(parse_quantity(str(text)))


def _sum(resources: Iterable[Mapping[str, str | int | float]]) -> Quantities:
    """Sum over the containers of a pod; unset unless every container has a value."""
    listed = list(resources)
    cpus = [_amount(each["cpu"]) for each in listed if "cpu" in each]
    memory = [_amount(each["memory"]) for each in listed if "memory" in each]
    return Quantities(
        sum(cpus) if cpus and len(cpus) == len(listed) else None,
        round(sum(memory)) if memory and len(memory) == len(listed) else None,
    )


def _unix_seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _holds(conditions: Iterable[Condition], kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in conditions)
