from typing import Any

import msgspec
import pytest

from collector.features.kubernetes.models import KubeList, KubePod
from collector.features.kubernetes.views import service_view, view_of
from tests.collector.features.kubernetes.fake import pod
from wire.resources import Quantities


def read(described: dict[str, Any], **labels: str) -> KubePod:
    described["metadata"]["labels"] |= labels
    return msgspec.convert(described, KubePod)


NEVER, ALLOWED = {"wattpack.move": "never"}, {"wattpack.move": "allowed"}
SCRATCH = [{"name": "scratch", "emptyDir": {}}]


@pytest.mark.parametrize(
    ("described", "labels", "replicas", "stays"),
    [
        (pod("web", "a"), {}, 2, None),
        (pod("web", "a"), NEVER, 2, "its label wattpack.move is never"),
        (pod("web", "a"), {}, 1, "it has one replica and no label wattpack.move=allowed"),
        (pod("web", "a"), ALLOWED, 1, None),
        (
            pod("web", "a", volumes=SCRATCH),
            {},
            2,
            "it uses the volume scratch, which stays behind and no label wattpack.move=allowed",
        ),
        (pod("web", "a", volumes=SCRATCH), ALLOWED, 2, None),
        (
            pod("web", "a", volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "x"}}]),
            {},
            2,
            None,
        ),
        (pod("web", "a", kind="DaemonSet"), ALLOWED, 2, "it runs on every node"),
        (pod("web", "a", kind="Job"), ALLOWED, 2, "it is a job, which would start over"),
        (pod("web", "a", kind=None), ALLOWED, 1, "no controller would replace it"),
        (
            pod("web", "a", nodeSelector={"kubernetes.io/hostname": "a"}),
            ALLOWED,
            2,
            "its node selector pins it to a",
        ),
    ],
)
def test_reasons_to_stay(
    described: dict[str, Any], labels: dict[str, str], replicas: int, stays: str | None
) -> None:
    assert service_view("shop/web", [read(described, **labels)] * replicas).stays == stays


def test_a_workload_has_the_namespace_and_the_annotation_of_its_application() -> None:
    described = pod("web", "a")
    described["metadata"]["annotations"] = {"wattpack.talks-to": "db,cache", "other": "x"}
    view = service_view("shop/web", [read(described, app="web")])
    assert (view.namespace, view.labels["wattpack.talks-to"]) == (
        described["metadata"]["namespace"],
        "db,cache",
    )
    assert "other" not in view.labels


_PODS = b"""{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "812"}, "items": [
 {"metadata": {"name": "web-5d9c-x2x7v", "generateName": "web-5d9c-", "namespace": "shop", "uid": "u-1",
   "creationTimestamp": "2026-11-16T21:10:52Z",
   "labels": {"app": "web", "pod-template-hash": "5d9c", "wattpack.slo": "silver"},
   "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9c", "uid": "r-1",
                        "controller": true, "blockOwnerDeletion": true}]},
  "spec": {"containers": [{"name": "web", "image": "web:1",
                           "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}],
   "nodeSelector": {"disk": "ssd"}, "restartPolicy": "Always",
   "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
     {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]}}},
  "status": {"phase": "Pending", "qosClass": "Burstable", "conditions": [
    {"type": "PodScheduled", "status": "False", "lastProbeTime": null, "reason": "Unschedulable",
     "lastTransitionTime": "2026-11-16T21:10:52Z",
     "message": "0/3 nodes are available: 3 Insufficient cpu."}]}},
 {"metadata": {"name": "db-1", "namespace": "shop", "uid": "u-2", "creationTimestamp": "2026-11-16T21:10:52Z",
   "labels": {"app": "db", "wattpack.slo": "gold"},
   "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "r-2",
                        "controller": true}]},
  "spec": {"nodeName": "b", "containers": [{"name": "db", "image": "db:1", "resources": {}}]},
  "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
    {"name": "db", "containerID": "containerd://c-2", "restartCount": 0, "ready": true,
     "state": {"running": {"startedAt": "2026-11-16T21:10:57Z"}}}]}},
 {"metadata": {"name": "db-0", "namespace": "shop", "uid": "u-3", "creationTimestamp": "2026-11-16T21:10:52Z",
   "ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": true}]},
  "spec": {"nodeName": "a", "containers": [{"name": "db", "image": "db:1", "resources": {}}]},
  "status": {"phase": "Pending", "containerStatuses": [
    {"name": "db", "image": "db:1", "state": {"waiting": {"reason": "ContainerCreating"}}}]}}
]}"""
_CREATED = 1794863452.0
"""2026-11-16T21:10:52Z."""


def test_pending_pods_are_listed_with_what_they_need_and_running_ones_with_their_times() -> None:
    view = view_of([], msgspec.json.decode(_PODS, type=KubeList[KubePod]).items)
    [running] = view.tasks
    assert (running.container, running.id, running.service, running.slot) == ("c-2", "u-2", "shop/db", "1")
    assert (running.created_at, running.running_since) == (_CREATED, _CREATED + 5)
    placeless, creating = view.pending
    assert (placeless.id, placeless.service, placeless.slot) == ("u-1", "shop/web", None)
    assert (placeless.created_at, placeless.node) == (_CREATED, "")
    web = view.service("shop/web")
    assert web is not None
    assert web.reserved_by(placeless) == Quantities(0.25, 64 << 20)
    assert (web.constraints, web.spread) == (("disk==ssd",), True)
    assert web.labels["wattpack.slo"] == "silver"
    assert (creating.id, creating.slot, creating.node) == ("u-3", "0", "a")


def test_a_pod_spreads_only_by_node_and_from_pods_like_itself() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}

    def spreads(**changes: Any) -> bool:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, **changes}]}
        return read(pod("web", "a", affinity={"podAntiAffinity": required}), app="web").spreads

    assert spreads()
    assert not spreads(topologyKey="topology.kubernetes.io/zone")
    assert not spreads(labelSelector={"matchLabels": {"app": "db"}})
