"""Containers with promises of availability: they wait, start, are stopped for others, and end."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from collector.config import CollectorConfig
from collector.decide.policies.actions import Action, Kill, Move, Start
from collector.decide.policies.interface import Plan, Policy
from collector.decide.policies.resolve import PolicyChoice
from collector.features.promises.ledger.promises import Promise, ServiceMode
from collector.features.promises.snapshot import TaskPromises
from collector.snapshot.constraints import Constraint, Operator
from collector.snapshot.tables import NOWHERE, Snapshot
from replay.setup.hosts import build_hosts
from replay.setup.scenario import Host, Simulation, Startup
from replay.setup.workload import PromisedContainers, Workload
from replay.simulation.compare import fit_reservations
from replay.simulation.policy_runs import PolicyRun
from replay.simulation.queue.run import run_queue
from replay.simulation.results import Outcome, PolicyResult, result_of
from tests.replay import setups
from wire.errors import UserError

GOLD = Promise(name="gold", availability=1.0, importance=1)
HALF = Promise(name="half", availability=0.5, importance=2)
HOST = Host(name="node", cpu_cores=1, memory_mb=1024, watts=(100, 200))
STARTUP = Startup(same_host_seconds=(2.0,), other_host_seconds=(5.0,))
PERIOD = Simulation(decide_seconds=30.0)
Plans = Callable[[Snapshot], Sequence[Action]]


def workload(  # noqa: PLR0913 - the columns of a workload
    count: int,
    *,
    seconds: float = 600.0,
    arrivals: Sequence[float] | None = None,
    lifetimes: Sequence[float] | None = None,
    promise: Promise = HALF,
    mode: ServiceMode = ServiceMode.INDEPENDENT,
    service: str | None = None,
    by_service: bool = False,
) -> Workload:
    """Containers a, b, c, ... of one core each, so that a host runs one."""
    plain = setups.workload(
        *[(1.0, 1e6)] * count, seconds=seconds, arrivals=arrivals, lifetimes=lifetimes or [inf] * count
    )
    promised = PromisedContainers(
        promises=(promise,),
        promise=np.zeros(count, dtype=np.int8),
        spread=np.zeros(count, dtype=np.bool_),
        mode=mode,
        by_service=by_service,
    )
    services = plain.services if service is None else (service,) * count
    return replace(plain, promised=promised, services=services)


def simulate(
    plans: Plans,
    containers: Workload,
    hosts: Sequence[Host] = (HOST,),
    startup: Startup = STARTUP,
) -> PolicyResult:
    return result_of(outcome_of(plans, containers, hosts, startup))


def outcome_of(
    plans: Plans,
    containers: Workload,
    hosts: Sequence[Host] = (HOST,),
    startup: Startup = STARTUP,
) -> Outcome:
    policy = Policy(
        name="scripted",
        summary="returns given plans",
        rebalance=lambda snapshot, _: Plan(actions=tuple(plans(snapshot))),
    )
    policy_run = PolicyRun(
        name="scripted",
        chosen=PolicyChoice(policy, policy.settings()),
        collector=CollectorConfig(),
        simulation=PERIOD,
    )
    built = build_hosts(hosts)
    return run_queue(policy_run, built, fit_reservations(containers, built), startup, lambda _: None)


def first_fit(snapshot: Snapshot) -> list[Action]:
    """Start waiting containers in their order, wherever there is room."""
    free = (snapshot.nodes.capacity - snapshot.nodes.allocated)[:, 0].copy()
    actions: list[Action] = []
    for row in snapshot.waiting.tolist():
        node = int(np.argmax(free >= snapshot.tasks.requested[row, 0]))
        if free[node] >= snapshot.tasks.requested[row, 0]:
            free[node] -= snapshot.tasks.requested[row, 0]
            actions.append(start(snapshot, row, node))
    return actions


def start(snapshot: Snapshot, row: int, node: int = 0) -> Start:
    return Start(task=snapshot.tasks.ids[row], target=snapshot.nodes.names[node], reasons=())


def stop(snapshot: Snapshot, row: int) -> Kill:
    node = snapshot.nodes.names[int(snapshot.tasks.node[row])]
    return Kill(task=snapshot.tasks.ids[row], node=node, target=None, reasons=())


def take_turns(snapshot: Snapshot) -> list[Action]:
    """Stop the container that runs, for the most urgent one that waits."""
    running = np.flatnonzero(snapshot.tasks.node != NOWHERE)
    waiting = snapshot.waiting
    promises = snapshot.part(TaskPromises)
    assert promises is not None
    urgent = int(waiting[np.argmin(promises.slack_seconds[waiting])])
    return [*(stop(snapshot, int(row)) for row in running), start(snapshot, urgent)]


def slo(result: PolicyResult) -> dict[str, float]:
    assert isinstance(result.slo, dict)
    (figures,) = result.slo.values()
    return {"met": figures.met_ratio, "mean": figures.mean_availability, "min": figures.min_availability}


def test_one_runs_and_the_other_waits_to_the_end() -> None:
    result = simulate(first_fit, workload(2))
    assert slo(result) == {"met": 0.5, "mean": 0.5, "min": 0.0}
    # Half a core for ten minutes is missing, and twice that is charged for so deep a shortfall.
    assert result.penalty == pytest.approx(0.5 * 600 * 2)
    assert result.preemptions == 0
    assert (result.placed, result.waiting_at_end) == (1, 1)


def test_every_ten_minutes_each_active_request_counts_by_its_time_so_far() -> None:
    # a runs for five minutes, b waits for it, and c comes when a is long gone.
    containers = workload(3, seconds=1800.0, arrivals=[0, 0, 700], lifetimes=[300, inf, 60])
    found = [each["half"].tolist() for each in outcome_of(first_fit, containers).availability]
    assert found == [
        [1.0, pytest.approx(0.5)],
        [pytest.approx(0.75), 0.0],
        [pytest.approx(1500 / 1800), 0.0],
    ]


def test_a_first_start_takes_no_time_by_default() -> None:
    assert slo(simulate(first_fit, workload(1)))["mean"] == 1.0
    timed = Startup(same_host_seconds=(2.0,), other_host_seconds=(6.0,), first=True)
    assert slo(simulate(first_fit, workload(1), startup=timed))["mean"] == pytest.approx(594 / 600)


def test_one_that_ends_makes_room_at_once() -> None:
    result = simulate(first_fit, workload(2, arrivals=[0, 10], lifetimes=[110, 200]))
    mean = pytest.approx((1 + 200 / 300) / 2)
    assert slo(result) == {"met": 1.0, "mean": mean, "min": pytest.approx(200 / 300)}
    assert result.finished == 2
    assert result.waited_p90_seconds == pytest.approx(90.0)


def test_a_stopped_container_keeps_its_time_and_waits_for_its_next_start() -> None:
    result = simulate(take_turns, workload(2, seconds=120.0))
    # Turns every 30 s, on the only host: a and b start at once, and from then on in 2 s.
    assert result.preemptions == 3
    assert slo(result)["mean"] == pytest.approx((30 + 30 + 28 + 28) / 240)
    assert result.killed_placed_again == 2


def test_the_time_that_a_container_ran_before_counts_for_its_end() -> None:
    result = simulate(take_turns, workload(2, seconds=600.0, lifetimes=[58, 1000]))
    # a runs from 0 to 30 and from 62 to 90: then its 58 s are over.
    assert result.finished == 1


def test_a_stopped_batch_container_starts_all_over() -> None:
    result = simulate(
        take_turns, workload(2, seconds=300.0, lifetimes=[58, 1000], mode=ServiceMode.BATCH, service="work")
    )
    assert result.finished == 0


def test_start_up_on_another_host_takes_longer() -> None:
    targets = iter((0, 1, 1))

    def plans(snapshot: Snapshot) -> list[Action]:
        """Stop a every other time, and start it again on the next target. b waits all the time."""
        running = np.flatnonzero(snapshot.tasks.node != NOWHERE)
        if running.size:
            return [stop(snapshot, int(running[0]))]
        row = next(row for row, each in enumerate(snapshot.tasks.ids) if each.startswith("a"))
        return [start(snapshot, row, next(targets))]

    hosts = [Host(name=name, cpu_cores=1, memory_mb=1024, watts=(100, 200)) for name in ("one", "two")]
    result = simulate(plans, workload(2, seconds=150.0), hosts)
    # On one from 0 to 30 s; on two from 60 to 90 s, 5 s later, and from 120 s on, 2 s later.
    assert slo(result)["mean"] == pytest.approx((30 + 25 + 28) / 300)


def test_decisions_come_at_arrivals_and_ends_and_when_nothing_happened_for_a_while() -> None:
    times: list[float] = []

    def observe(snapshot: Snapshot) -> list[Action]:
        times.append(snapshot.at)
        return first_fit(snapshot)

    simulate(observe, workload(3, seconds=120.0, arrivals=[0, 10, 15], lifetimes=[35, inf, inf]))
    assert [at - times[0] for at in times] == [0, 10, 15, 35, 65, 95]


def test_a_snapshot_has_promises_rules_and_the_last_host() -> None:
    seen: list[Snapshot] = []

    def plans(snapshot: Snapshot) -> list[Action]:
        seen.append(snapshot)
        return take_turns(snapshot)

    containers = workload(2, seconds=100.0)
    assert containers.promised is not None
    containers = replace(
        containers,
        constraints=((Constraint("disk", Operator.IS, "ssd"),), ()),
        promised=replace(containers.promised, spread=np.array([False, True])),
    )
    simulate(plans, containers)
    first, later = seen[0], seen[2]
    assert first.tasks.ids == ("a", "b")
    assert first.tasks.node.tolist() == [NOWHERE, NOWHERE]
    assert {row: (len(each.constraints), each.spread) for row, each in first.rules.items()} == {
        0: (1, False),
        1: (0, True),
    }
    # At 60 s, b runs since 30 s and a waits as its second incarnation.
    assert later.tasks.ids == ("b", "a~1")
    assert later.tasks.node.tolist() == [0, NOWHERE]
    assert later.tasks.came_from.tolist() == [NOWHERE, 0]
    assert list(later.rules) == [1]
    assert later.nodes.allocated[0, 0] == 1.0
    promises = later.part(TaskPromises)
    assert promises is not None
    assert promises.admitted_seconds.tolist() == [60.0, 60.0]
    # Each ran for 30 of 60 s, which is what it was promised; no start-up time was measured yet.
    assert promises.slack_seconds.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("mode", "mean"),
    [(ServiceMode.INDEPENDENT, 0.0), (ServiceMode.CONCURRENT, 0.0), (ServiceMode.AGGREGATED, 0.5)],
)
def test_availability_of_a_service_depends_on_its_mode(mode: ServiceMode, mean: float) -> None:
    result = simulate(first_fit, workload(2, service="web", mode=mode, by_service=True))
    assert slo(result)["mean"] == pytest.approx(mean, abs=1e-9)
    assert isinstance(result.slo, dict)
    assert result.slo["half"].requests == 1


def test_a_plan_that_does_not_fit_or_moves_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        simulate(lambda snapshot: [start(snapshot, 0), start(snapshot, 1)], workload(2))
    with pytest.raises(UserError, match="move"):
        simulate(
            lambda snapshot: [Move(task=snapshot.tasks.ids[0], node="node", target="node", reasons=())],
            workload(1),
        )


def test_a_policy_that_starts_nothing_cannot_be_compared() -> None:
    policy = Policy(name="nothing", summary="does nothing")
    policy_run = PolicyRun(
        name="nothing",
        chosen=PolicyChoice(policy, policy.settings()),
        collector=CollectorConfig(),
        simulation=PERIOD,
    )
    with pytest.raises(UserError, match="nothing does not start waiting containers"):
        run_queue(policy_run, build_hosts([HOST]), workload(1), Startup(), lambda _: None)


def test_gold_is_kept_by_one_that_never_waits() -> None:
    assert slo(simulate(first_fit, workload(1, promise=GOLD)))["met"] == 1.0
    late = workload(2, promise=GOLD, arrivals=[0, 0], lifetimes=[1, inf])
    assert slo(simulate(first_fit, late))["met"] == 0.5
