"""Placement requests of pods: resource requests, workload, and learned need."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from collector.common.applications import application_traits
from collector.decide.policies.interface import Request
from collector.decide.question import estimate_need
from collector.features.kubernetes.models import KubePod
from collector.features.kubernetes.views import labels_of
from collector.observe.traits import task_traits
from collector.snapshot.tables import Snapshot, TaskKind
from wire.resources import Quantities

_JOB_KINDS = {"Job", "CronJob"}
_CRITICAL_CLASSES = {"system-node-critical", "system-cluster-critical"}
_CRITICAL_PRIORITY = 2_000_000_000
"""Kubernetes reserves this priority and higher ones for its own pods."""


class _WithPod(msgspec.Struct):
    pod: KubePod = msgspec.field(name="Pod")


def parse_pod(described: Mapping[str, Any] | None) -> KubePod:
    """Convert a pod of kube-scheduler, in which a field that is null counts as absent."""
    return msgspec.convert({"Pod": _without_nulls(described or {})}, _WithPod).pod


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def pod_request(pod: KubePod, snapshot: Snapshot, default_class: int) -> Request:
    """Make the placement request of a pod; raises `UserError` for an invalid quantity."""
    metadata = pod.metadata
    traits = task_traits(metadata.labels, default_class)
    images = {each.image for each in pod.spec.containers}
    # A profile by image is that of one container, so it does not fit a pod of several images.
    image = images.pop() if len(images) == 1 else None
    requests = pod.requests
    need, _ = estimate_need(
        snapshot,
        services=(pod.workload, pod.name),
        image=image,
        demand=Quantities(),
        reserve=Quantities(requests.cpu_cores or None, requests.memory_bytes or None),
    )
    is_job = any(owner.kind in _JOB_KINDS for owner in metadata.owner_references)
    return replace(
        need,
        service=pod.workload if pod.workload in snapshot.services.index else pod.name,
        task_class=traits.task_class,
        kind=TaskKind.JOB if is_job else traits.kind,
        labels=metadata.labels,
        application=application_traits(labels_of(pod), metadata.namespace),
    )


def is_essential(pod: KubePod) -> bool:
    """Whether its node or the cluster depends on a pod. No node is filtered out for it."""
    spec = pod.spec
    is_critical = spec.priority_class_name in _CRITICAL_CLASSES or spec.priority >= _CRITICAL_PRIORITY
    return is_critical or pod.is_bound
