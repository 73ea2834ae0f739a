"""Nodes, pods and workloads of Kubernetes as the common state of an orchestrator. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from math import inf

from collector.common.labels import ALLOWED, MOVE_LABEL, NEVER, NO_MOVE_LABEL, TALKS_TO_LABEL
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.features.kubernetes.models import (
    HOSTNAME,
    KubeContainer,
    KubeNode,
    KubePod,
    KubeWorkload,
    sum_quantities,
)
from wire.resources import Quantities

_LOCAL_VOLUMES = ("hostPath", "emptyDir", "local")


def view_of(
    nodes: Iterable[KubeNode], pods: Iterable[KubePod], workloads: Iterable[KubeWorkload] = ()
) -> OrchestratorState:
    """Convert nodes, pods and workloads to the common state."""
    living = [pod for pod in pods if pod.lives]
    by_name = {each.name: each for each in workloads}
    members = {name: [each.described_pod] for name, each in by_name.items()} | by_workload(living)
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
        services=tuple(service_view(name, pods, by_name.get(name)) for name, pods in members.items()),
        tasks=tuple(
            # Requests are of the whole pod: they count once.
            _task_view(pod, status, pod.requests if place == 0 else Quantities(0.0, 0))
            for pod in living
            if pod.spec.node_name
            for place, status in enumerate(each for each in pod.status.container_statuses if each.id)
        ),
        pending=tuple(_task_view(pod, KubeContainer(), pod.requests) for pod in living if not pod.containers),
    )


def _task_view(pod: KubePod, status: KubeContainer, reserve: Quantities) -> TaskView:
    return TaskView(
        id=pod.metadata.uid,
        container=status.id,
        service=pod.workload,
        node=pod.spec.node_name,
        state=pod.status.phase.lower(),
        reserve=reserve,
        slot=pod.slot,
        created_at=pod.created_at,
        running_since=status.running_since,
    )


def by_workload(pods: Iterable[KubePod]) -> dict[str, list[KubePod]]:
    """Return the pods of each workload."""
    members: dict[str, list[KubePod]] = {}
    for pod in pods:
        members.setdefault(pod.workload, []).append(pod)
    return members


def service_view(name: str, pods: list[KubePod], workload: KubeWorkload | None = None) -> ServiceView:
    """Return a workload from its pods, which are alike but for limits that were changed in place."""
    pod = pods[0]
    return ServiceView(
        name=name,
        mode=Mode.GLOBAL if pod.is_daemon else Mode.STANDALONE if pod.owner is None else Mode.REPLICATED,
        replicas=len(pods) if workload is None else workload.spec.replicas,
        reserve=pod.requests,
        limit=min(
            (sum_quantities(each.resources.limits for each in pod.spec.containers) for pod in pods),
            key=lambda limit: inf if limit.cpu_cores is None else limit.cpu_cores,
        ),
        constraints=tuple(f"{label}=={value}" for label, value in pod.spec.node_selector.items()),
        spread=pod.spreads,
        image=next((each.image for each in pod.spec.containers), ""),
        labels=labels_of(pod),
        namespace=pod.metadata.namespace,
        stays=next(_reasons_to_stay(pod, len(pods)), None),
        uncut="Kubernetes manages the limits of its pods",
        stops_to_move=True,  # an eviction comes first
        stopped_replicas=0 if workload is None else workload.stopped_replicas,
        is_updating=workload is not None and workload.is_updating,
    )


def labels_of(pod: KubePod) -> Mapping[str, str]:
    """Return the labels of a pod, and an annotation whose value no label can have: it contains commas."""
    listed = pod.metadata.annotations.get(TALKS_TO_LABEL)
    return pod.metadata.labels if listed is None else {**pod.metadata.labels, TALKS_TO_LABEL: listed}


def _reasons_to_stay(pod: KubePod, replicas: int) -> Iterator[str]:
    """Return why a pod must not move, the strongest reason first."""
    label = pod.metadata.labels.get(MOVE_LABEL)
    if label == NEVER:
        yield f"its label {MOVE_LABEL} is {NEVER}"
    if (reason := reason_to_run(pod)) is not None:
        yield reason
    if pod.owner is not None and pod.owner.kind == "Job":
        yield "it is a job, which would start over"
    if HOSTNAME in pod.spec.node_selector:
        yield f"its node selector pins it to {pod.spec.node_selector[HOSTNAME]}"
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
