"""Placement requests of pods: resource requests, workload, and learned need."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from collector.common.applications import application_traits
from collector.common.labels import TALKS_TO_LABEL
from collector.common.quantities import parse_quantity
from collector.features.kubernetes.extender.models import PodContainer, SchedulerPod
from collector.features.kubernetes.objects import ResourceRequirements
from collector.live.traits import task_traits
from collector.placement.question import estimate_need
from collector.policies.interface import Request
from collector.snapshot.tables import Snapshot, TaskKind
from wire.resources import Quantities

_LARGEST = 2**62
_JOB_KINDS = {"Job", "CronJob"}
_ALWAYS = "Always"
_CRITICAL_CLASSES = {"system-node-critical", "system-cluster-critical"}
_CRITICAL_PRIORITY = 2_000_000_000
"""Kubernetes reserves this priority and higher ones for its own pods."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A placement request for a pod, with the names of the pod and its workload."""

    request: Request
    pod: str
    """Name that agents report as the service of its containers."""
    workload: str
    """Name of its owner, such as a deployment."""

    @property
    def names(self) -> tuple[str, str]:
        return self.workload, self.pod


def pod_request(pod: SchedulerPod, snapshot: Snapshot, default_class: int) -> PodRequest:
    """Make the placement request of a pod; raises `UserError` for an invalid quantity."""
    metadata = pod.metadata
    labels, name, workload = metadata.labels, metadata.full_name, metadata.workload
    traits = task_traits(labels, default_class)
    images = {each.image for each in pod.spec.containers or ()}
    # A profile by image is that of one container, so it does not fit a pod of several images.
    image = images.pop() if len(images) == 1 else None
    listed = metadata.annotations.get(TALKS_TO_LABEL)
    need = estimate_need(
        snapshot,
        services=(workload, name),
        image=image,
        demand=Quantities(),
        reserve=requested(pod),
    )
    is_job = any(owner.kind in _JOB_KINDS for owner in metadata.owner_references)
    request = Request(
        demand=need.assumed.demand,
        mean=need.assumed.mean,
        variance=need.variance,
        reserve=need.assumed.reserve,
        known=need.known,
        service=workload if workload in snapshot.services.index else name,
        dominant=need.dominant,
        task_class=traits.task_class,
        kind=TaskKind.JOB if is_job else traits.kind,
        labels=labels,
        application=application_traits(
            {**labels, TALKS_TO_LABEL: listed} if listed else labels, metadata.namespace
        ),
        image=image,
    )
    return PodRequest(request, name, workload)


def is_bound_to_its_node(pod: SchedulerPod) -> bool:
    """Whether a pod belongs to one node: it is static, or part of a DaemonSet."""
    return pod.metadata.is_daemon or pod.metadata.is_static


def is_essential(pod: SchedulerPod) -> bool:
    """Whether its node or the cluster depends on a pod. No node is filtered out for it."""
    spec = pod.spec
    is_critical = spec.priority_class_name in _CRITICAL_CLASSES or (spec.priority or 0) >= _CRITICAL_PRIORITY
    return is_critical or is_bound_to_its_node(pod)


def requested(pod: SchedulerPod) -> Quantities:
    """The requests of a pod, by the rules of kube-scheduler.

    They are set for the pod itself; otherwise they are the sum over its containers, or the request of its
    largest init container if that is higher.
    """
    cores = _pod_request(pod, "cpu")
    size_bytes = _pod_request(pod, "memory")
    return Quantities(
        cpu_cores=float(cores) if cores else None,
        memory_bytes=min(int(size_bytes), _LARGEST) if size_bytes else None,
    )


def _pod_request(pod: SchedulerPod, resource: str) -> Decimal:
    init = pod.spec.init_containers or []
    # An init container that always restarts is a sidecar.
    sidecars = [each for each in init if each.restart_policy == _ALWAYS]
    running = sum(_requests([*(pod.spec.containers or []), *sidecars], resource), Decimal(0))
    starting = max(_requests(init, resource), default=Decimal(0))
    overhead = parse_quantity(str(pod.spec.overhead.get(resource, 0)))
    own = _request(pod.spec.resources, resource)
    return (max(running, starting) if own is None else own) + overhead


def _requests(containers: Iterable[PodContainer], resource: str) -> Iterator[Decimal]:
    for container in containers:
        yield _request(container.resources, resource) or Decimal(0)


def _request(resources: ResourceRequirements, resource: str) -> Decimal | None:
    """The request; as in Kubernetes, the limit if there is no request."""
    text = resources.requests.get(resource, resources.limits.get(resource))
    return None if text is None else max(parse_quantity(str(text)), Decimal(0))
