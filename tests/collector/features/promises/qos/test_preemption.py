"""Whom kube-scheduler may preempt, by the promises of its victims."""

from collections.abc import Mapping
from math import inf

import pytest

from collector.decide.policies.interface import Request
from collector.features.promises.qos.policy import nodes_to_preempt_on
from collector.features.promises.qos.rules import QosSettings
from collector.features.promises.settings import SLO_LABEL
from collector.snapshot.tables import Snapshot
from tests.collector.features.promises.promised import BRONZE, GOLD, SILVER, Promised, with_promises
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

NEED = Quantities(1.0, 1000)
POD = "uid-of-pod"
EXACT = QosSettings(exact=True)


def cluster(
    victims: Mapping[str, Promised | None], pod: Promised | None = None
) -> tuple[Snapshot, dict[str, list[str]]]:
    """A victim on each node, called as its node; and the pod, if it waits already."""
    nodes = [NodeFacts(name=name, capacity=NEED) for name in victims]
    tasks = [TaskFacts(id=f"id-{name}", node=name, requested=NEED) for name in victims]
    tasks += [] if pod is None else [TaskFacts(id=POD, node=None, requested=NEED)]
    promised = {f"id-{name}": each for name, each in victims.items() if each is not None}
    promised |= {} if pod is None else {POD: pod}
    snapshot = assemble(nodes, tasks)
    made = with_promises(snapshot, promised) if promised else snapshot
    return made, {name: [f"id-{name}"] for name in victims}


def chosen(
    victims: Mapping[str, Promised | None], pod: Promised | None = None, slo: str | None = None
) -> set[str]:
    snapshot, by_node = cluster(victims, pod)
    labels = {} if slo is None else {SLO_LABEL: slo}
    return set(nodes_to_preempt_on(snapshot, POD, Request(reserve=NEED, labels=labels), by_node, EXACT))


def slack(seconds: float, promise: int = SILVER) -> Promised:
    return Promised(promise=promise, slack_seconds=seconds)


def test_without_promises_kube_scheduler_decides() -> None:
    assert chosen({"a": None, "b": None}) == {"a", "b"}
    assert chosen({"a": None, "b": None}, slack(-5.0)) == {"a", "b"}


def test_victims_that_can_wait_longest_are_preempted() -> None:
    urgent = slack(-5.0)
    assert chosen({"a": slack(50.0), "b": slack(500.0), "c": slack(-100.0)}, urgent) == {"b"}
    assert chosen({"a": slack(500.0), "b": slack(500.0)}, urgent) == {"a", "b"}
    # A victim without a promise loses nothing.
    assert chosen({"a": slack(500.0), "b": None}, urgent) == {"b"}


@pytest.mark.parametrize(
    ("victim", "pod", "may"),
    [
        (slack(50.0), slack(-5.0), True),  # rule 1
        (slack(50.0), slack(60.0), False),
        (slack(5.0), slack(-5.0, GOLD), True),  # rule 2: a more important pod
        (slack(5.0), slack(-5.0, BRONZE), False),
        (slack(5.0), slack(-5.0), True),  # rule 3: a more urgent one
        (slack(-9.0), slack(-5.0), False),
        (slack(50.0, GOLD), slack(-5.0), False),  # all of its time is promised
    ],
)
def test_promises_are_protected_by_the_rules_of_the_policy(
    victim: Promised,
    pod: Promised,
    may: bool,  # noqa: FBT001 - a case
) -> None:
    assert chosen({"a": victim}, pod) == ({"a"} if may else set())


def test_pod_without_a_promise_preempts_none_that_has_one() -> None:
    assert chosen({"a": slack(inf), "b": None}) == {"b"}
    assert chosen({"a": slack(5000.0)}) == set()


def test_pod_that_was_just_created_is_as_urgent_as_its_class() -> None:
    assert chosen({"a": slack(50.0), "b": slack(-50.0)}, slo="silver") == {"a"}
    assert chosen({"a": slack(50.0)}, slo="unknown") == set()
