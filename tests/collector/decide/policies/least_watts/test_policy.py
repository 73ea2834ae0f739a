from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.common.arrays import Floats
from collector.decide.policies.actions import PowerOn
from collector.decide.policies.interface import Rejection, Request
from collector.decide.policies.least_watts.policy import place
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import CURVE, amount
from tests.collector.decide.policies.least_watts.builders import DEFAULTS, make_node, make_task
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities


def _best(snapshot: Snapshot, request: Request, settings: LeastWattsSettings = DEFAULTS) -> str | None:
    best = place(snapshot, request, settings).best
    return None if best is None else snapshot.nodes.names[best]


def _request(cores: float, gibibytes: float = 0.1, deviation: float = 0.0, **facts: object) -> Request:
    demand = amount(cores, gibibytes)
    variance = (deviation**2, 0.0, 0.0, 0.0)
    return Request(demand=demand, mean=demand, variance=variance, known=True, **facts)  # type: ignore[arg-type]


def test_the_node_that_draws_less_for_it_comes_first() -> None:
    thrifty = msgspec.structs.replace(CURVE, cpu_watts=(0.0, 5.0, 10.0))
    tasks = [make_task("one", "a", 2), make_task("two", "b", 2)]
    snapshot = assemble([make_node("a"), make_node("b", curve=thrifty)], tasks)
    assert _best(snapshot, _request(1)) == "b"


def test_no_node_is_switched_on_while_one_that_is_on_has_room() -> None:
    snapshot = assemble([make_node("a", on=False), make_node("b")], [make_task("one", "b", 5)])
    assert _best(snapshot, _request(2)) == "b"
    ranking = place(snapshot, _request(6), DEFAULTS)
    assert ranking.best == 0
    assert ranking.needs(0) == (PowerOn(node="a", reasons=("no node that is on has room",)),)


def test_of_nodes_that_are_off_the_one_with_the_least_idle_power_per_core_is_switched_on() -> None:
    small = msgspec.structs.replace(CURVE, idle_watts=15.0)
    snapshot = assemble([make_node("a", curve=small, cores=5, on=False), make_node("b", on=False)])
    assert _best(snapshot, _request(1)) == "b"


def test_a_task_as_large_as_a_node_fits_on_an_empty_one() -> None:
    tasks = [make_task("one", "a", 0.1)]
    assert _best(assemble([make_node("a"), make_node("b", on=False)], tasks), _request(10, 16)) == "b"


def test_memory_adds_up_in_full() -> None:
    tasks = [make_task("one", "a", 0.1, gibibytes=8), make_task("two", "a", 0.1, gibibytes=7)]
    assert _best(assemble([make_node("a")], tasks), _request(0.1, 1)) is None


def test_a_node_where_the_task_uses_what_others_leave_is_preferred() -> None:
    flat = msgspec.structs.replace(CURVE, cpu_watts=(0.0, 20.0, 40.0))
    tasks = [make_task("cpu", "a", 6, gibibytes=1), make_task("memory", "b", 4, gibibytes=12)]
    snapshot = assemble([make_node("a", curve=flat), make_node("b", curve=flat)], tasks)
    assert _best(snapshot, _request(0.5, 2)) == "a"
    assert _best(snapshot, _request(1, 0.1)) == "b"


def test_of_nodes_in_use_the_fuller_one_comes_first_so_that_the_other_may_run_empty() -> None:
    convex = msgspec.structs.replace(CURVE, cpu_watts=(0.0, 10.0, 30.0))
    tasks = [make_task("one", "a", 1), make_task("two", "b", 5)]
    nodes = [make_node("a", curve=convex), make_node("b", curve=convex)]
    assert _best(assemble(nodes, tasks), _request(1)) == "b"


def test_a_service_is_kept_apart_over_failure_domains() -> None:
    nodes = [
        make_node("a", domain="left"),
        make_node("b", domain="left"),
        make_node("c", domain="right", on=False),
    ]
    snapshot = assemble(nodes, [make_task("one", "a", 1, service="web")])
    assert _best(snapshot, _request(1, service="web")) in {"a", "b"}
    assert _best(snapshot, _request(1, service="web", spread=True)) == "c"


def test_promises_are_kept_unless_it_may_overbook() -> None:
    snapshot = assemble([make_node("a")], [TaskFacts(id="one", node="a", requested=amount(9, 1))])
    request = Request(demand=amount(1, 1), reserve=amount(2, 1), known=True)
    assert _best(snapshot, request) is None
    assert _best(snapshot, request, LeastWattsSettings(overbooks=True)) == "a"


def test_a_node_without_a_power_curve_comes_last() -> None:
    tasks = [make_task("one", "a", 2), make_task("two", "b", 2)]
    assert _best(assemble([make_node("a", curve=None), make_node("b")], tasks), _request(1)) == "b"


def test_unknown_capacities_refuse_nothing() -> None:
    nodes = [NodeFacts(name="a", capacity=Quantities(10.0, 1 << 34), curve=CURVE)]
    ranking = place(assemble(nodes, [make_task("one", "a", 1)]), _request(1), DEFAULTS)
    assert ranking.best == 0
    assert np.isfinite(ranking.scores).all()


@given(deviation=st.floats(0, 3), one=st.floats(0.0001, 0.5), two=st.floats(0.0001, 0.5))
def test_what_fits_at_a_lower_risk_fits_at_a_higher_one(deviation: float, one: float, two: float) -> None:
    strict, lax = sorted((one, two))
    snapshot = assemble([make_node("a")], [make_task("one", "a", 5, deviation=deviation)])
    request = _request(1)
    if _best(snapshot, request, LeastWattsSettings(short_ratio=strict)) == "a":
        assert _best(snapshot, request, LeastWattsSettings(short_ratio=lax)) == "a"


def test_the_longer_a_node_may_be_short_the_more_fits() -> None:
    snapshot = assemble([make_node("a")], [make_task("one", "a", 5, deviation=1.3)])
    assert _best(snapshot, _request(1), LeastWattsSettings(short_ratio=0.001)) is None
    assert _best(snapshot, _request(1), LeastWattsSettings(short_ratio=0.1)) == "a"


def test_the_accepted_share_may_differ_by_resource() -> None:
    node = replace(make_node("a"), capacity=amount(10, 16, disk=100.0, network=100.0))
    task = replace(make_task("one", "a", 1), mean=amount(1, 0.1, disk=50.0), variance=(0.0, 0.0, 500.0, 0.0))
    snapshot = assemble([node], [task])
    wanted = amount(1, 0.1, disk=1.0)
    request = Request(demand=wanted, mean=wanted, known=True)
    assert _best(snapshot, request, LeastWattsSettings(short_ratio=0.01)) is None
    lax = msgspec.convert({"short_ratio": 0.01, "short_ratio_of": {"disk": 0.1}}, LeastWattsSettings)
    assert _best(snapshot, request, lax) == "a"


def test_the_more_tasks_vary_together_the_less_fits() -> None:
    wave = np.tile([0.1, 0.7], 15)
    generator = np.random.default_rng(1)
    together = [wave] * 9
    apart = [generator.permutation(wave) for _ in range(9)]

    def best(windows: Sequence[Floats]) -> str | None:
        tasks = [
            make_task(f"task-{row}", "a", 0.4, deviation=0.3, windows=each)
            for row, each in enumerate(windows)
        ]
        return _best(assemble([make_node("a")], tasks), _request(1))

    assert best(apart) == "a"
    assert best(together) is None


def test_an_unobserved_request_counts_with_a_share_of_its_reservation() -> None:
    tasks = [make_task("other", "a", 1), TaskFacts(id="new", node="a", requested=amount(7, 1))]
    snapshot = assemble([make_node("a")], tasks)
    overbooks = LeastWattsSettings(overbooks=True)
    assert _best(snapshot, Request(reserve=amount(7, 1)), overbooks) == "a"
    assert _best(snapshot, Request(reserve=amount(36, 1)), overbooks) is None


def test_a_node_with_an_open_alert_is_not_ranked() -> None:
    nodes = [make_node("a", bottleneck=(False, True, False, False)), make_node("b", on=False)]
    ranking = place(assemble(nodes, [make_task("one", "a", 1)]), _request(1), DEFAULTS)
    assert ranking.rows.tolist() == [1]
    assert ranking.refused[0] == Rejection.BOTTLENECK


def test_reasons_state_watts_room_and_accepted_share() -> None:
    snapshot = assemble([make_node("a")], [make_task("one", "a", 2, deviation=0.0)])
    reasons = place(snapshot, _request(1), DEFAULTS).explain(0)
    assert reasons[0] == "adds 6.0 W there; 1 node with room"
    assert reasons[1].startswith("keeps ")
    empty = place(assemble([make_node("a")]), _request(1), DEFAULTS).explain(0)
    assert (
        "; its idle power of 20.0 W counts too, because it is empty and could be switched off; " in empty[0]
    )
    assert reasons[1].endswith("% of cpu free for variation: short at most 1.0% of the time")


def _pending(number: int, *, is_known: bool, reserved: float, mean: float) -> PendingTask:
    return PendingTask(
        node="a",
        service=f"service-{number}",
        allocated=(reserved, 0.0, 0.0, 0.0),
        envelope=(mean, 0.0, 0.0, 0.0),
        mean=(mean, 0.0, 0.0, 0.0),
        variance=(0.0, 0.0, 0.0, 0.0),
        task_class=1,
        is_known=is_known,
    )


def test_of_two_pending_tasks_only_the_one_of_unknown_use_counts_with_a_share() -> None:
    snapshot = assemble([make_node("a")], [make_task("other", "a", 1)])
    known = [_pending(each, is_known=True, reserved=4, mean=1) for each in range(2)]
    unknown = _pending(9, is_known=False, reserved=12, mean=12)
    overbooks = LeastWattsSettings(overbooks=True)
    assert _best(with_pending(snapshot, [*known, unknown], turn=1), _request(1), overbooks) == "a"
    as_known = replace(unknown, is_known=True)
    assert _best(with_pending(snapshot, [*known, as_known], turn=1), _request(1), overbooks) is None


def test_the_share_of_reservations_is_learned_from_pending_tasks_too() -> None:
    snapshot = assemble([make_node("a"), make_node("b")], [make_task("other", "a", 1)])
    request = Request(reserve=amount(30, 1))
    overbooks = LeastWattsSettings(overbooks=True)
    assert "a" in _ranked(snapshot, request, overbooks)
    greedy = [_pending(each, is_known=True, reserved=0.1, mean=0.1) for each in range(30)]
    assert "a" not in _ranked(with_pending(snapshot, greedy, turn=1), request, overbooks)


def _ranked(snapshot: Snapshot, request: Request, settings: LeastWattsSettings) -> set[str]:
    return {snapshot.nodes.names[row] for row in place(snapshot, request, settings).rows}
