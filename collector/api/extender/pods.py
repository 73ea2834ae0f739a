"""From a pod to a request: what it asks for, what it belongs to, and what is known of that."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from collector.api.extender.models import PodContainer, SchedulerPod
from collector.common.quantities import parse_quantity
from collector.live.traits import task_traits
from collector.placement.question import make_out
from collector.policies.interface import Request
from collector.snapshot.tables import Snapshot, TaskKind
from wire.resources import Quantities

_LARGEST = 2**62
_HASH_LABEL = "pod-template-hash"
_JOB_KINDS = {"Job", "CronJob"}
_ALWAYS = "Always"


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod as a request, and the names that it and its like go by."""

    request: Request
    pod: str
    """As agents call its containers' service."""
    workload: str
    """What keeps it, and would make another one like it."""

    @property
    def names(self) -> tuple[str, str]:
        return self.workload, self.pod


def asking(pod: SchedulerPod, snapshot: Snapshot, default_class: int) -> PodRequest:
    """What a pod asks for. Raises `UserError` where a quantity cannot be read."""
    metadata = pod.metadata
    labels = metadata.labels or {}
    name = f"{metadata.namespace}/{metadata.name}"
    workload = f"{metadata.namespace}/{_workload(pod) or metadata.name}"
    traits = task_traits(labels, default_class)
    images = {each.image for each in pod.spec.containers or ()}
    need = make_out(
        snapshot,
        services=(workload, name),
        # Of several containers each needs something of its own.
        image=images.pop() if len(images) == 1 else None,
        demand=Quantities(),
        reserve=requested(pod),
    )
    is_job = any(owner.kind in _JOB_KINDS for owner in metadata.owner_references or ())
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
    )
    return PodRequest(request, name, workload)


def requested(pod: SchedulerPod) -> Quantities:
    """What a pod asks for, as the scheduler counts: all its containers, or the largest that runs before."""
    cores = _sum(pod, "cpu")
    size_bytes = _sum(pod, "memory")
    return Quantities(
        cpu_cores=float(cores) if cores else None,
        memory_bytes=min(int(size_bytes), _LARGEST) if size_bytes else None,
    )


def _sum(pod: SchedulerPod, resource: str) -> Decimal:
    before = pod.spec.init_containers or []
    # One that starts before the others and always runs stays beside them: a sidecar.
    beside = [each for each in before if each.restart_policy == _ALWAYS]
    running = sum(_each([*(pod.spec.containers or []), *beside], resource), Decimal(0))
    starting = max(_each(before, resource), default=Decimal(0))
    overhead = (pod.spec.overhead or {}).get(resource, "0")
    return max(running, starting) + parse_quantity(overhead)


def _each(containers: Iterable[PodContainer], resource: str) -> Iterator[Decimal]:
    for container in containers:
        asked, allowed = container.resources.requests or {}, container.resources.limits or {}
        yield max(parse_quantity(asked.get(resource, allowed.get(resource, "0"))), Decimal(0))


def _workload(pod: SchedulerPod) -> str | None:
    """What keeps a pod: its deployment rather than the set of replicas in between, whose name has a hash."""
    owners = pod.metadata.owner_references or []
    owner = next((each for each in owners if each.controller), owners[0] if owners else None)
    if owner is None:
        return None
    number = (pod.metadata.labels or {}).get(_HASH_LABEL)
    return owner.name.removesuffix(f"-{number}") if number else owner.name
