from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.analysis.bottlenecks import CLOSE_SECONDS, BottleneckKind, BottleneckTracker, Finding, findings
from collector.common.liveness import Liveness
from tests.collector.report_strategies import patient
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities, Resource

CAPACITY = Quantities(4.0, 8_000_000)
STEP = 10.0


def node(name: str, *, cpu: float = 0.0, liveness: Liveness = Liveness.UP, on: bool = True) -> NodeFacts:
    return NodeFacts(
        name=name,
        capacity=CAPACITY,
        used=Quantities(cpu, 0),
        liveness=liveness,
        on=on,
        report_age_seconds=0.0 if liveness is Liveness.UP else 34.0,
    )


def task(  # noqa: PLR0913 - one for each thing that a finding looks at
    name: str,
    where: str,
    *,
    service: str | None = None,
    cpu: float = 0.0,
    promised: float = 0.0,
    task_class: int = 1,
) -> TaskFacts:
    return TaskFacts(
        id=name,
        node=where,
        service=service,
        used=Quantities(cpu, 0),
        requested=Quantities(promised, 0),
        task_class=task_class,
    )


def test_a_node_with_containers_that_does_not_report_is_a_finding() -> None:
    nodes = [
        node("down", liveness=Liveness.DOWN),
        node("empty", liveness=Liveness.DOWN),
        node("off", liveness=Liveness.DOWN, on=False),
        node("suspect", liveness=Liveness.SUSPECT),
        node("up"),
    ]
    tasks = [task(where, where) for where in ("down", "off", "suspect", "up")]
    found = findings(assemble(nodes, tasks))
    assert [(each.kind, each.subject) for each in found] == [
        (BottleneckKind.QUIET, "down"),
        (BottleneckKind.QUIET, "suspect"),
    ]
    assert found[0].evidence == "down is down: no report for 34 s (1 container ran there)"


@pytest.mark.parametrize(
    ("task_class", "promised", "is_found", "opens"),
    [
        (1, 4.0, False, False),
        (1, 4.05, True, False),
        (1, 4.2, True, True),
        (2, 4.7, False, False),
        (4, 9, True, True),
    ],
)
def test_a_node_is_overbooked_by_the_strictest_class_on_it(
    task_class: int, promised: float, *, is_found: bool, opens: bool
) -> None:
    tasks = [
        task("1", "a", promised=promised - 1, task_class=task_class),
        task("2", "a", promised=1, task_class=4),
    ]
    found = findings(assemble([node("a")], tasks))
    assert bool(found) is is_found
    if is_found:
        assert (found[0].kind, found[0].resource, found[0].opens) == (
            BottleneckKind.OVERBOOKED,
            Resource.CPU,
            opens,
        )
        assert f"its containers reserve {promised / 4:.2f} times its cpu" in found[0].evidence


def test_what_containers_lost_by_cuts_counts_against_the_overbooking_of_their_node() -> None:
    """A container of class 4 tolerates a half: cut by a half, it loses more on any overbooked node."""

    def found(reserved: float) -> list[Finding]:
        cut = replace(task("1", "a", promised=4.0, task_class=4), allocated=Quantities(2.0, 0))
        other = task("2", "a", promised=reserved - 2.0, task_class=4)
        return [*findings(assemble([node("a")], [cut, other]))]

    assert not found(4.0)
    (one,) = found(4.56)
    assert (one.kind, one.opens) == (BottleneckKind.OVERBOOKED, True)
    assert one.evidence == (
        "a is overbooked: its containers reserve 1.14 times its cpu; after their cuts, they tolerate"
        " 1.00 times"
    )


def hot(first: float, second: float, *, own: float = 0.5, third: float | None = None) -> list[Finding]:
    used = {"a": first, "b": second} | ({} if third is None else {"c": third})
    nodes = [node(name, cpu=4 * ratio) for name, ratio in used.items()]
    tasks = [task(name, name, service="web", cpu=4 * own * ratio) for name, ratio in used.items()]
    tasks += [task(f"{name}-2", name, service="other", cpu=0.1) for name in used]
    return [each for each in findings(assemble(nodes, tasks)) if each.kind is BottleneckKind.SERVICE]


def test_a_service_is_hot_when_every_node_it_runs_on_is_and_it_is_why() -> None:
    (found,) = hot(0.95, 0.97)
    assert (found.subject, found.resource, found.opens) == ("web", Resource.CPU, True)
    assert found.ratio == pytest.approx(0.95)
    assert not hot(0.95, 0.97, third=0.5)
    assert not hot(0.95, 0.97, own=0.2)
    assert [each.opens for each in hot(0.95, 0.85)] == [False]


def test_a_service_on_one_node_is_that_nodes_bottleneck() -> None:
    tasks = [task("1", "a", service="web", cpu=4), task("2", "a", service="web", cpu=0)]
    assert not findings(assemble([node("a", cpu=4)], tasks))


def test_an_empty_cluster_has_no_findings() -> None:
    assert findings(assemble([])) == ()


# --- The story ------------------------------------------------------------------------------


def sign(
    kind: BottleneckKind = BottleneckKind.OVERBOOKED,
    subject: str = "a",
    *,
    opens: bool = True,
    evidence: str = "",
) -> Finding:
    return Finding(kind=kind, subject=subject, opens=opens, evidence=evidence)


def test_a_bottleneck_opens_and_closes_after_a_delay() -> None:
    watch = BottleneckTracker()
    assert not watch.update([sign()], 0.0)
    assert not watch.update([sign()], 50.0)
    (opened,) = watch.update([sign(evidence="much")], 60.0)
    assert (opened.opened_at, opened.is_open) == (0.0, True)
    assert not watch.update([sign(opens=False, evidence="less")], 100.0)
    assert [(each.id, each.finding.evidence, each.found_at) for each in watch.list()] == [
        (opened.id, "less", 100.0)
    ]
    assert not watch.update([], 110.0)
    assert not watch.update([], 279.0)
    (closed,) = watch.update([], 280.0)
    assert (closed.id, closed.closed_at, closed.finding.evidence) == (opened.id, 280.0, "less")
    assert watch.list() == (closed,)


def test_a_quiet_node_opens_at_once_and_a_weak_finding_opens_nothing() -> None:
    watch = BottleneckTracker()
    assert len(watch.update([sign(BottleneckKind.QUIET)], 0.0)) == 1
    for at in range(20):
        assert not watch.update([sign(BottleneckKind.QUIET), sign(opens=False)], STEP * at)


def test_a_short_finding_opens_nothing() -> None:
    watch = BottleneckTracker()
    for at in range(100):
        assert not watch.update([sign()] if at % 5 else [], STEP * at)


def test_an_open_bottleneck_keeps_its_id_after_a_restart() -> None:
    first = BottleneckTracker()
    (opened,) = first.update([sign(BottleneckKind.QUIET)], 0.0)
    again = BottleneckTracker(first.list(), now=5000.0)
    assert not again.update([sign(BottleneckKind.QUIET)], 5010.0)
    assert [each.id for each in again.list()] == [opened.id]
    other = BottleneckTracker(first.list(), now=5000.0)
    assert not other.update([], 5010.0)
    assert [each.closed_at for each in other.update([], 5180.0)] == [5180.0]


signs = st.lists(
    st.lists(st.tuples(st.sampled_from(BottleneckKind), st.sampled_from("ab"), st.booleans()), max_size=4),
    max_size=120,
)


@patient
@given(signs)
def test_bottlenecks_do_not_flap(story: list[list[tuple[BottleneckKind, str, bool]]]) -> None:
    watch = BottleneckTracker()
    last_change: dict[tuple[BottleneckKind, str], float] = {}
    last_sign: dict[tuple[BottleneckKind, str], float] = {}
    is_open: dict[tuple[BottleneckKind, str], bool] = {}
    for number, seen in enumerate(story):
        at = STEP * number
        last_sign |= {(kind, subject): at for kind, subject, _ in seen}
        for each in watch.update([sign(kind, subject, opens=opens) for kind, subject, opens in seen], at):
            key = each.finding.kind, each.finding.subject
            assert each.is_open is not is_open.get(key, False)
            is_open[key] = each.is_open
            if not each.is_open:
                # From opening to closing, and from its last sign, it took its time.
                assert at - last_change[key] >= CLOSE_SECONDS
                assert at - last_sign[key] >= CLOSE_SECONDS
            last_change[key] = at
        listed = watch.list()
        assert {(each.finding.kind, each.finding.subject) for each in listed if each.is_open} == {
            key for key, value in is_open.items() if value
        }
        assert len({each.id for each in listed}) == len(listed)
