import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.decide.policies.admission.record import WINDOW_SECONDS, ShortageRecord
from collector.decide.policies.admission.rule import AdmissionRule
from collector.decide.policies.interface import AdmissionVerdict, Request
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import amount
from tests.collector.decide.policies.least_watts.builders import make_node, make_task
from tests.collector.snapshot.builders import assemble
from wire.resources import Quantities

ONE = Request(reserve=Quantities(cpu_cores=1.0), demand=amount(1, 0.1), mean=amount(1, 0.1), known=True)


def small_cluster() -> Snapshot:
    """A calm node, a full one and an empty one."""
    tasks = [make_task(f"calm-{each}", "calm", 0.5) for each in range(4)]
    tasks += [make_task(f"full-{each}", "full", 1.1, deviation=0.6) for each in range(8)]
    return assemble([make_node(name) for name in ("calm", "full", "empty")], tasks)


def test_a_container_is_admitted_where_nothing_else_runs() -> None:
    snapshot, rule = small_cluster(), AdmissionRule(0.05, ShortageRecord())
    large = Request(demand=amount(30, 1), mean=amount(30, 1), known=True)
    admitted, verdict = rule.judge(snapshot, large, np.arange(3))
    empty = snapshot.nodes.index["empty"]
    assert admitted.tolist() == [row == empty for row in range(3)]
    assert verdict(empty).reason.endswith("but nothing else runs there")


@settings(max_examples=30, deadline=None)
@given(one=st.floats(0.001, 1), two=st.floats(0.001, 1), cores=st.floats(0, 20))
def test_a_higher_limit_admits_no_less(one: float, two: float, cores: float) -> None:
    strict, lax = sorted((one, two))
    snapshot, request = (
        small_cluster(),
        Request(demand=amount(cores, 0.1), mean=amount(cores, 0.1), known=True),
    )
    admitted = [
        AdmissionRule(each, ShortageRecord()).judge(snapshot, request, np.arange(3))[0]
        for each in (strict, lax)
    ]
    assert np.all(admitted[0] <= admitted[1])


def _verdict(snapshot: Snapshot, record: ShortageRecord, *, has_margins: bool = False) -> AdmissionVerdict:
    """The verdict on the first node."""
    rule = AdmissionRule(0.05, record)
    return rule.judge(snapshot, ONE, np.arange(1), has_margins=has_margins)[1](0)


def test_past_shortages_are_part_of_the_reason_and_of_the_verdict() -> None:
    record = ShortageRecord()
    tasks = [make_task(f"t{each}", "a", 1.0, deviation=0.4) for each in range(7)]
    for window in range(30):
        node = make_node("a", used=amount(7, 1), history=[(1.0, 0.1, 0.0, 0.0)] * 4)
        record.observe(assemble([node], tasks, at=window * WINDOW_SECONDS))
    snapshot = assemble([make_node("a", used=amount(7, 1))], tasks)
    fresh, warned = (_verdict(snapshot, each) for each in (ShortageRecord(), record))
    assert warned.probability > fresh.probability
    assert "predicted and 100.00% observed" in warned.reason
    assert "observed" not in fresh.reason


def test_nodes_of_a_policy_with_margins_are_admitted_unless_short_more_often_than_predicted() -> None:
    tasks = [make_task(f"full-{each}", "a", 1.1, deviation=0.6) for each in range(8)]
    snapshot, record = assemble([make_node("a", used=amount(7, 1))], tasks), ShortageRecord()
    before = _verdict(snapshot, record, has_margins=True)
    assert before.probability > 0.05
    assert before.admitted
    assert before.reason.endswith("so far not short more often than predicted")
    for window in range(30):
        node = make_node("a", used=amount(7, 1), history=[(1.0, 0.1, 0.0, 0.0)] * 4)
        record.observe(assemble([node], tasks, at=window * WINDOW_SECONDS))
    assert not _verdict(snapshot, record, has_margins=True).admitted
