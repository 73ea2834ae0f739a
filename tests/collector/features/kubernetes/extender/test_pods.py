from typing import Any

import msgspec
import pytest

from collector.common.applications import ApplicationTraits
from collector.features.kubernetes.extender.pods import is_essential, parse_pod, pod_request
from collector.features.kubernetes.models import KubePod
from collector.snapshot.tables import TaskKind
from tests.collector.snapshot.builders import NodeFacts, ServiceFacts, assemble
from wire.resources import Quantities

NEED = Quantities(2.0, 3, 4.0, 5.0)


def pod(*containers: dict[str, Any], **parts: Any) -> KubePod:
    metadata = {"name": "web-5d4f8c7b9-x2x4z", "namespace": "shop"} | parts.pop("metadata", {})
    return msgspec.convert({"metadata": metadata, "spec": {"containers": containers, **parts}}, KubePod)


def container(cpu: str | None = None, memory: str | None = None, image: str = "x") -> dict[str, Any]:
    asked = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"image": image, "resources": {"requests": asked}}


def test_pod_requests_sum_containers_or_take_the_largest_init_container() -> None:
    both = container("250m", "1Gi"), container("0.75", "512Mi")
    assert pod(*both).requests == Quantities(1.0, 3 << 29)
    assert pod(*both, initContainers=[container("2", "1Mi")]).requests == Quantities(2.0, 3 << 29)
    sidecar = container("2") | {"restartPolicy": "Always"}
    assert pod(*both, initContainers=[sidecar]).requests == Quantities(3.0, 3 << 29)
    assert pod(*both, overhead={"cpu": "500m"}).requests == Quantities(1.5, 3 << 29)


def test_a_pod_without_requests_has_an_unknown_need() -> None:
    snapshot = assemble([NodeFacts(name="a", capacity=NEED)])
    assert pod_request(pod(container()), snapshot, 1).reserve == Quantities()


def test_a_field_that_is_null_counts_as_absent() -> None:
    bare = {"metadata": {"name": "web"}, "spec": {"containers": [{"image": "x"}]}}
    nulls = {
        "metadata": {"name": "web", **dict.fromkeys(("labels", "annotations", "ownerReferences", "uid"))},
        "spec": {
            "containers": [{"image": "x", "resources": {"requests": None, "limits": {"cpu": None}}}],
            **dict.fromkeys(("initContainers", "overhead", "priority", "priorityClassName", "affinity")),
        },
        "status": None,
    }
    assert parse_pod(nulls) == parse_pod(bare)
    assert parse_pod(None) == KubePod()


def test_resources_of_the_pod_replace_those_of_its_containers() -> None:
    whole = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "4", "memory": "4Gi"}}
    both = container("250m", "1Mi"), container("0.75")
    assert pod(*both, resources=whole).requests == Quantities(2.0, 1 << 30)
    assert pod(*both, resources={"requests": {"memory": "8Mi"}}).requests == Quantities(1.0, 8 << 20)
    assert pod(resources=whole, overhead={"cpu": "500m"}).requests == Quantities(2.5, 1 << 30)


@pytest.mark.parametrize(
    ("parts", "runs", "bound"),
    [
        ({}, False, False),
        ({"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "web"}]}}, False, False),
        ({"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "logs"}]}}, True, True),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "1"}}}, True, True),
        ({"metadata": {"annotations": {"kubernetes.io/config.source": "file"}}}, True, True),
        ({"metadata": {"annotations": {"kubernetes.io/config.source": "api"}}}, False, False),
        ({"priorityClassName": "system-cluster-critical"}, True, False),
        ({"priority": 2_000_001_000}, True, False),
        ({"priority": 1_000_000_000}, False, False),
    ],
)
def test_pods_that_a_node_or_the_cluster_needs(parts: dict[str, Any], runs: bool, bound: bool) -> None:  # noqa: FBT001 - columns of the table
    asked = pod(container("1"), **parts)
    assert (is_essential(asked), asked.is_bound) == (runs, bound)


def test_pod_need_is_found_by_workload_name_or_image() -> None:
    def known(name: str, image: str = "") -> ServiceFacts:
        return ServiceFacts(name=name, profiled=True, envelope=NEED, image=image)

    def demand(*services: ServiceFacts, **metadata: Any) -> Quantities:
        snapshot = assemble([NodeFacts(name="a", capacity=NEED)], services=services)
        return pod_request(pod(container("1", image="img"), metadata=metadata), snapshot, 1).demand

    owned = {
        "labels": {"pod-template-hash": "5d4f8c7b9"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d4f8c7b9", "controller": True}],
    }
    assert demand(known("shop/web"), **owned) == NEED
    assert demand(known("shop/web")) == Quantities(1.0)
    assert demand(known("shop/web-5d4f8c7b9-x2x4z")) == NEED
    assert demand(known("other", image="img")) == NEED
    assert demand(known("other", image="another")) == Quantities(1.0)


def test_pod_class_and_kind_come_from_labels_and_owners() -> None:
    snapshot = assemble([NodeFacts(name="a", capacity=NEED)])
    owners = {"ownerReferences": [{"kind": "Job", "name": "nightly"}]}
    request = pod_request(pod(metadata={"labels": {"wattpack.class": "3"}} | owners), snapshot, 1)
    assert (request.task_class, request.kind) == (3, TaskKind.JOB)
    request = pod_request(pod(), snapshot, 2)
    assert (request.task_class, request.kind) == (2, TaskKind.SERVICE)


def test_a_pod_belongs_to_the_application_of_its_namespace_or_label() -> None:
    snapshot = assemble([NodeFacts(name="alpha", capacity=NEED)])
    bound = {"wattpack.delay-max": "85ms"}
    web = pod(container(image="web:1"), metadata={"labels": bound})
    request = pod_request(web, snapshot, 1)
    assert (request.application, request.image) == (ApplicationTraits("shop", 0.085), "web:1")
    metadata = {"labels": {"wattpack.app": "till"}, "annotations": {"wattpack.talks-to": "shop/db,cache"}}
    other = pod_request(pod(container(image="a"), container(image="b"), metadata=metadata), snapshot, 1)
    assert (other.application.name, other.application.delay_max, other.image) == (
        "till@shop",
        float("inf"),
        None,
    )
    assert other.application.talks_to == ("shop/db", "cache")
