"""Questions as a real kube-scheduler asks them: see docs/kubernetes.md for how to make it do so."""

import json
from typing import Any

import pytest

from collector.decide.policies.interface import Request
from collector.decide.policies.table import POLICIES
from tests.collector.builders import START, container, partial_report, state
from tests.collector.serve.api.test_hints import HAS, Asker, asker, sample
from wire.messages import Alert, Report
from wire.resources import Quantities, Resource

__all__ = ["asker"]

POD: dict[str, Any] = {
    "metadata": {
        "name": "p0",
        "namespace": "default",
        "uid": "61ec0a71-4769-4bdc-b040-31ee44098df0",
        "creationTimestamp": "2026-11-16T00:14:20Z",
        "labels": {"app": "web"},
    },
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "x",
                "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}
        ],
        "priority": 0,
    },
    "status": {"phase": "Pending", "qosClass": "Burstable"},
}
ROOM = "not enough free CPU"
UNKNOWN = "the node has no recent reports, and the pod fits on a node that has"
PLACING = [name for name, each in POLICIES.items() if each.place is not None]


def by_name(*names: str) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": names}).encode()


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"a/b": "c"}},
        "spec": {},
        "status": {
            "capacity": {"cpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


async def ask(asker: Asker, verb: str, body: bytes) -> Any:
    status, answer = await asker.post(body, f"/v1/kubernetes/{verb}")
    assert status == 200, answer
    return answer


async def filtered(asker: Asker, body: bytes) -> dict[str, Any]:
    return dict(await ask(asker, "filter?policy=draps", body))


async def points(asker: Asker, *names: str, policy: str = "draps") -> dict[str, int]:
    answer = await ask(asker, f"prioritize?policy={policy}", by_name(*names))
    assert [each["Host"] for each in answer] == list(names)
    assert all(each.keys() == {"Host", "Score"} for each in answer)
    return {each["Host"]: each["Score"] for each in answer}


async def test_filter_by_names_returns_names(asker: Asker) -> None:
    await asker.send(sample("calm", 1.0), sample("full", 7.9), sample("not-asked", 1.0))
    assert await filtered(asker, by_name("full", "calm", "stranger")) == {
        "Nodes": None,
        "NodeNames": ["calm"],
        "FailedNodes": {"full": ROOM, "stranger": UNKNOWN},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


async def test_filter_returns_complete_nodes_unchanged(asker: Asker) -> None:
    await asker.send(sample("calm", 1.0), sample("full", 7.9))
    nodes = {"metadata": {"resourceVersion": "7"}, "items": [node("full"), node("calm")]}
    body = json.dumps({"Pod": POD, "Nodes": nodes, "NodeNames": None}).encode()
    answer = await filtered(asker, body)
    assert answer["NodeNames"] is None
    assert answer["Nodes"] == nodes | {"items": [node("calm")]}
    assert answer["FailedNodes"] == {"full": ROOM}
    priorities = await ask(asker, "prioritize", body)
    assert [each["Host"] for each in priorities] == ["full", "calm"]


def asked_for(*names: str, spec: dict[str, Any] | None = None, **parts: Any) -> bytes:
    pod = POD | parts | {"spec": POD["spec"] | (spec or {})}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()


@pytest.mark.slow
@pytest.mark.parametrize("policy", PLACING)
async def test_limits_of_pods_are_no_reservations(asker: Asker, policy: str) -> None:
    """Six pods a node with limits of three cores each, on eight cores: none of it is promised."""
    pods = [
        container(
            f"{node}-{number}", runtime="containerd", service=None, limit=Quantities(3.0, 2_000_000_000)
        )
        for node in "ab"
        for number in range(6)
    ]
    await asker.send(
        sample("a", 1.0, containers=tuple(pods[:6])), sample("b", 1.0, containers=tuple(pods[6:]))
    )
    answer = await ask(asker, f"filter?policy={policy}", by_name("a", "b", "no-agent"))
    assert answer["NodeNames"] == ["a", "b"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", PLACING)
async def test_node_without_recent_reports_never_beats_a_node_that_has_them(
    asker: Asker, policy: str
) -> None:
    await asker.send(sample("dead", 0.0), sample("stale", 0.0), sample("busy", 4.0))
    asker.clock.now += 130.0
    await asker.send(sample("busy", 4.0, sequence=2, at=asker.clock.now))
    answer = await ask(asker, f"filter?policy={policy}", by_name("dead", "stale", "busy", "no-agent"))
    assert answer["NodeNames"] == ["busy"]
    assert answer["FailedNodes"] == dict.fromkeys(("dead", "stale", "no-agent"), UNKNOWN)
    # Where nothing is known at all, Kubernetes decides alone.
    answer = await ask(asker, f"filter?policy={policy}", by_name("dead", "no-agent"))
    assert answer["NodeNames"] == ["dead", "no-agent"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", PLACING)
async def test_pod_without_requests_does_not_go_to_a_node_with_an_open_alert(
    asker: Asker, policy: str
) -> None:
    short = (Alert(Resource.DISK, START, "disk busy 99 % of the time"),)
    await asker.send(sample("a-short", 0.5, alerts=short), sample("calm", 2.0))
    body = asked_for("a-short", "calm", spec={"containers": [{"name": "c", "image": "x"}]})
    answer = await ask(asker, f"filter?policy={policy}", body)
    assert answer["NodeNames"] == ["calm"]
    assert answer["FailedNodes"] == {"a-short": "the node has a bottleneck"}


@pytest.mark.parametrize(
    "parts",
    [
        {"metadata": POD["metadata"] | {"ownerReferences": [{"kind": "DaemonSet", "name": "logs"}]}},
        {"metadata": POD["metadata"] | {"annotations": {"kubernetes.io/config.mirror": "1"}}},
        {"spec": {"priorityClassName": "system-node-critical"}},
    ],
)
async def test_essential_pod_is_never_refused(asker: Asker, parts: dict[str, Any]) -> None:
    await asker.send(sample("full", 7.9))
    assert (await filtered(asker, asked_for("full")))["NodeNames"] == []
    answer = await filtered(asker, asked_for("full", "no-agent", **parts))
    assert (answer["NodeNames"], answer["FailedNodes"]) == (["full", "no-agent"], {})


async def test_daemon_counts_on_no_other_node(asker: Asker) -> None:
    await asker.send(sample("a", 1.0), sample("b", 1.0))
    daemon = {"metadata": POD["metadata"] | {"ownerReferences": [{"kind": "DaemonSet", "name": "logs"}]}}
    answer = await ask(asker, "prioritize", asked_for("a", "b", **daemon))
    assert [each["Score"] for each in answer] == [0, 0]
    assert asker.core.reservations.placements(START) == []


async def test_nominated_node_passes_and_its_victims_no_longer_count(asker: Asker) -> None:
    await asker.send(sample("full", 5.0), sample("other", 7.9))
    big = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "3"}}}]}
    victim = POD["metadata"] | {"uid": "victim", "name": "victim"}
    await ask(asker, "prioritize?policy=draps", asked_for("full", metadata=victim))
    assert (await filtered(asker, asked_for("full", "other", spec=big)))["NodeNames"] == []
    victims = {"NodeNameToMetaVictims": {"full": {"Pods": [{"UID": "victim"}], "NumPDBViolations": 0}}}
    pod = POD | {"spec": POD["spec"] | big}
    await ask(asker, "preempt?policy=draps", json.dumps({"Pod": pod} | victims).encode())
    nominated = asked_for("full", "other", spec=big, status={"nominatedNodeName": "full"})
    assert (await filtered(asker, nominated))["NodeNames"] == ["full"]
    assert asker.core.reservations.placements(START) == []
    answer = await ask(asker, "prioritize?policy=draps", nominated)
    assert {each["Host"]: each["Score"] for each in answer} == {"full": 10, "other": 0}
    assert [each.sent.node for each in asker.core.reservations.placements(START)] == ["full"]


async def test_node_that_needs_a_cut_does_not_pass(asker: Asker) -> None:
    lax = container("lax", limit=Quantities(7.8, 1_000_000_000), labels={"wattpack.class": "4"})
    await asker.send(sample("a", 1.0, containers=(lax,)))
    answer = await ask(asker, "filter?policy=energy4cloud", by_name("a"))
    assert answer["NodeNames"] == []
    [why] = answer["FailedNodes"].values()
    assert why == "it fits only after it, or other containers, are limited, moved or stopped"


async def test_filter_without_nodes_is_empty(asker: Asker) -> None:
    body = json.dumps({"Pod": POD, "Nodes": {"metadata": {}, "items": None}, "NodeNames": None}).encode()
    assert (await filtered(asker, body))["Nodes"]["items"] == []
    assert await points(asker) == {}


async def test_null_counts_as_absent(asker: Asker) -> None:
    await asker.send(sample("calm", 1.0))
    empty = {"metadata": {"name": "p0", "labels": None}, "spec": {"containers": None}, "status": None}
    described = {"metadata": {"name": "calm", "labels": None}, "spec": None}
    nodes = {"metadata": None, "items": [described]}
    body = json.dumps({"Pod": empty, "Nodes": nodes, "NodeNames": None}).encode()
    assert (await filtered(asker, body))["Nodes"] == nodes
    assert (await ask(asker, "prioritize", body))[0]["Host"] == "calm"
    assert await ask(asker, "prioritize", json.dumps({"Pod": None, "NodeNames": None}).encode()) == []
    for victims in (
        {"NodeNameToVictims": {"calm": {"Pods": [empty], "NumPDBViolations": None}}},
        {"NodeNameToVictims": None, "NodeNameToMetaVictims": {"calm": {"Pods": None}}},
    ):
        answer = await ask(asker, "preempt", json.dumps({"Pod": empty} | victims).encode())
        assert answer["NodeNameToMetaVictims"].keys() == {"calm"}


async def test_scores_follow_the_policy_and_unknown_nodes_get_zero(asker: Asker) -> None:
    unknown = state(used=Quantities(), capacity=Quantities(8.0, 16_000_000_000))
    await asker.send(sample("a", 1.0), sample("b", 3.0), sample("c", 5.0), partial_report("d", state=unknown))
    await asker.send(sample("silent", 0.0))
    asker.clock.now += 20.0
    await asker.send(*(partial_report(name, sequence=2, at=asker.clock.now) for name in "abcd"))
    assert await points(asker, "silent", "b", "a", "c", "d", "stranger") == {
        "a": 10,
        "b": 5,
        "c": 1,
        "d": 0,
        "silent": 0,
        "stranger": 0,
    }


async def test_successive_pods_count_reservations(asker: Asker) -> None:
    await asker.send(sample("a", 1.0), sample("b", 1.2))
    best = []
    for number in range(4):
        pod = POD | {"metadata": POD["metadata"] | {"uid": str(number), "name": f"p{number}"}}
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["a", "b"]}).encode()
        answer = await ask(asker, "prioritize?policy=draps", body)
        best.append(max(answer, key=lambda each: each["Score"])["Host"])
        # Asked about again, a pod does not stand in its own way.
        assert await ask(asker, "prioritize?policy=draps", body) == answer
    assert best == ["a", "b", "a", "b"]
    await asker.send(sample("a", 1.5, sequence=2, containers=(container("c", service="default/p0"),)))
    await filtered(asker, json.dumps({"Pod": {}, "NodeNames": ["a"]}).encode())
    _, kept = await asker.ask("/v1/hints/reservations")
    assert [each["service"] for each in kept["reservations"]] == ["default/p1", "default/p2", "default/p3"]


async def test_pod_does_not_return_to_the_node_it_was_evicted_from(asker: Asker) -> None:
    await asker.send(sample("a", 1.0), sample("b", 3.0))
    owned = {"ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}]}
    pod = POD | {"metadata": POD["metadata"] | owned}
    asker.core.reservations.keep_from_returning("default/web", "a", until=START + 300)
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["a", "b"]}).encode()
    answer = await filtered(asker, body)
    assert answer["NodeNames"] == ["b"]
    assert answer["FailedAndUnresolvableNodes"] == {"a": "the service was just moved away from the node"}
    asker.clock.now += 300
    await asker.send(*(partial_report(name, sequence=2, at=asker.clock.now) for name in "ab"))
    assert (await filtered(asker, body))["NodeNames"] == ["a", "b"]


async def test_preemption_drops_nodes_where_it_does_not_help(asker: Asker) -> None:
    await asker.send(sample("full", 7.9), sample("left", 1.0))
    asker.core.reservations.keep_from_returning("default/p0", "left", until=START + 300)
    victims = {"Pods": [{"metadata": {"name": "v", "uid": "u1"}}], "NumPDBViolations": 1}
    by_id = {"Pods": [{"UID": "u1"}], "NumPDBViolations": 1}
    for question in (
        {"NodeNameToVictims": {"full": victims, "left": victims, "stranger": victims}},
        {"NodeNameToMetaVictims": {"full": by_id, "left": by_id, "stranger": by_id}},
    ):
        answer = await ask(asker, "preempt?policy=draps", json.dumps({"Pod": POD} | question).encode())
        assert answer == {"NodeNameToMetaVictims": {"full": by_id, "stranger": by_id}}


async def test_place_that_is_kept_for_a_pod_is_open_to_it_alone(asker: Asker) -> None:
    # Both nodes look full: on one, a pod is about to be stopped for this one.
    await asker.send(sample("a", 1.0), sample("b", 7.9), sample("c", 7.9))
    need = Quantities(7.0, 1 << 29)
    uid, snapshot = POD["metadata"]["uid"], await asker.core.snapshot()
    request = Request(demand=need, reserve=need, service="default/p0")
    asker.core.reservations.keep(snapshot, request, uid, "b", now=asker.clock.now, seconds=60)
    answer = await filtered(asker, by_name("a", "b", "c"))
    assert answer["NodeNames"] == ["b"]
    elsewhere = "room is reserved for this pod on b"
    assert answer["FailedAndUnresolvableNodes"] == {"a": elsewhere, "c": elsewhere}
    assert await points(asker, "a", "b", "c") == {"a": 0, "b": 10, "c": 0}
    _, counted = await asker.ask("/v1/hints/reservations")
    assert len(counted["reservations"]) == 1, "it is counted once"
    by_id = {"Pods": [{"UID": "u1"}], "NumPDBViolations": 0}
    question = {"Pod": POD, "NodeNameToMetaVictims": {"b": by_id, "c": by_id}}
    assert await ask(asker, "preempt", json.dumps(question).encode()) == {
        "NodeNameToMetaVictims": {"b": by_id}
    }
    # Until the node keeps no place, no other pod gets it.
    await asker.send(sample("b", 1.0, sequence=2))
    other = json.dumps(
        {"Pod": POD | {"metadata": {"name": "other", "uid": "other"}}, "Nodes": None, "NodeNames": ["b"]}
    ).encode()
    assert (await filtered(asker, other))["FailedNodes"] == {"b": ROOM}
    asker.core.reservations.give_up(uid)
    assert (await filtered(asker, other))["NodeNames"] == ["b"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "$"),
        (
            json.dumps({"Pod": {"spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}}}),
            "$.Pod",
        ),
        (json.dumps({"Pod": {"metadata": {"labels": 1}}}), "$.Pod.metadata.labels"),
    ],
)
async def test_invalid_extender_request_names_the_field(asker: Asker, body: str | bytes, field: str) -> None:
    data = body if isinstance(body, bytes) else body.encode()
    status, refusal = await asker.post(data, "/v1/kubernetes/filter")
    assert (status, refusal["field"]) == (400, field)


async def test_load_has_the_format_of_load_watcher(asker: Asker) -> None:
    await asker.send(sample("a", 2.0), sample("b", 4.0))
    status, answer = await asker.ask("/watcher?host=b")
    assert status == 200
    assert answer["timestamp"] == START
    assert answer["window"] == {"duration": "15m", "start": START - 900, "end": START}
    assert answer["source"] == "wattpack"
    assert answer["data"]["NodeMetricsMap"].keys() == {"b"}
    listed = answer["data"]["NodeMetricsMap"]["b"]
    values = {(each["type"], each["operator"]): each["value"] for each in listed["metrics"]}
    assert values["CPU", "AVG"] == values["CPU", "Latest"] == 50.0
    assert values["CPU", "STD"] == 0.0
    assert values["Memory", "Latest"] == 25.0
    assert values["Storage", "Latest"] == values["Bandwidth", "Latest"] == 0.0
    # As its agent reports it.
    assert values["Energy", "Latest"] == pytest.approx(50.0)
    _, everything = await asker.ask("/watcher")
    assert everything["data"]["NodeMetricsMap"].keys() == {"a", "b"}
    assert (await asker.ask("/watcher?host=unknown"))[0] == 404


def with_memory_use(name: str, ratio: float) -> Report:
    """A node with one container, of whose memory this share is in use with the pod."""
    assert HAS.memory_bytes is not None
    used = Quantities(1.0, round(ratio * HAS.memory_bytes) - (512 << 20), 0.0, 0.0)
    return sample(name, state=state(used=used, capacity=HAS), containers=(container(name, used=used),))


async def test_a_node_that_would_be_short_too_often_fails_with_the_figures(asker: Asker) -> None:
    await asker.send(with_memory_use("risky", 0.97), with_memory_use("calm", 0.5))
    answer = await ask(asker, "filter?policy=qos-driven", by_name("risky", "calm"))
    assert answer["NodeNames"] == ["calm"]
    assert "above the limit of 5.00%" in answer["FailedNodes"]["risky"]
    answer = await ask(asker, "filter?policy=qos-driven", by_name("risky"))
    assert answer["NodeNames"] == []
    assert "above the limit of 5.00%" in answer["FailedNodes"]["risky"]


async def test_admission_never_leaves_only_nodes_of_unknown_load(asker: Asker) -> None:
    await asker.send(with_memory_use("risky", 0.97))
    answer = await ask(asker, "filter?policy=qos-driven", by_name("risky", "no-agent"))
    assert answer["NodeNames"] == ["risky"]
    assert answer["FailedNodes"] == {"no-agent": UNKNOWN}


async def test_essential_pod_is_admitted_everywhere(asker: Asker) -> None:
    await asker.send(with_memory_use("risky", 0.97), with_memory_use("calm", 0.5))
    critical = asked_for("risky", "calm", spec={"priorityClassName": "system-cluster-critical"})
    assert (await ask(asker, "filter?policy=qos-driven", critical))["NodeNames"] == ["risky", "calm"]
