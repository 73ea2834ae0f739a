"""Energy, time and counts against values calculated by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config import CollectorConfig, ControlConfig
from collector.decide.policies.actions import Action, Cut, Kill, Move, PowerOff, PowerOn
from collector.decide.policies.interface import Plan, Policy, PolicySettings, Ranking, Request
from collector.snapshot.tables import NOWHERE, Snapshot, TaskKind
from replay.setup.scenario import Host, Simulation
from replay.simulation.cluster import unix
from replay.simulation.results import result_of
from tests.replay.setups import CALM, GIGABYTE, PLAIN, scripted, simulate, workload
from wire.resources import Quantities, Resource

MB = 1 << 20


def once(at: float, *actions: Action) -> tuple[Callable[[Snapshot], Plan], list[Snapshot]]:
    """A rebalance that acts at one moment, and keeps what it has seen."""
    seen: list[Snapshot] = []

    def plans(snapshot: Snapshot) -> Plan:
        seen.append(snapshot)
        return Plan(actions=actions if snapshot.at == unix(at) else ())

    return plans, seen


def two_nodes(**more: Any) -> list[Host]:
    return [msgspec.structs.replace(PLAIN, name=name, **more) for name in ("one", "two")]


def test_half_used_host_of_opendc_draws_ninety_thousand_joules() -> None:
    outcome = simulate("first-fit", [PLAIN], workload((0.5, 0.0)))
    assert outcome.account.total.joules == pytest.approx(90_000)
    assert result_of(outcome).energy_kwh == pytest.approx(0.025)


def test_empty_host_draws_idle_watts_unless_idle_is_off() -> None:
    containers = workload((0.5, 0.0))
    both = simulate(scripted({"a": "one"}), two_nodes(), containers)
    assert both.account.total.joules == pytest.approx(90_000 + 60_000)
    one = simulate(scripted({"a": "one"}), two_nodes(), containers, Simulation(idle_is_off=True))
    assert one.account.total.joules == pytest.approx(90_000)
    assert result_of(one).node_hours == pytest.approx(600 / 3600)


def test_move_takes_memory_over_bandwidth_and_runs_twice_meanwhile() -> None:
    plans, _ = once(300.0, Move(task="a", node="one", target="two", reasons=()))
    # 625 MB over 62.5 MB/s: ten seconds, in which both hosts work.
    outcome = simulate(scripted({"a": "one"}, plans), two_nodes(), workload((1.0, 625 * MB)), CALM)
    assert result_of(outcome).migrations == 1
    assert outcome.account.total.joules == pytest.approx(600 * (200 + 100) + 10 * 100)


def test_move_causes_the_configured_share_at_its_target() -> None:
    plans, _ = once(300.0, Move(task="a", node="one", target="two", reasons=()))
    simulation = Simulation(delay_seconds=0.0, migration_use_ratio=0.1)
    outcome = simulate(scripted({"a": "one"}, plans), two_nodes(), workload((1.0, 625 * MB)), simulation)
    assert outcome.account.total.joules == pytest.approx(600 * (200 + 100) + 10 * 10)


def test_redirected_container_ends_on_its_last_target_and_counts_twice() -> None:
    plans, seen = once(
        300.0,
        Move(task="a", node="one", target="two", reasons=()),
        Move(task="a", node="two", target="one", reasons=()),
    )
    containers = workload((1.0, 625 * MB), seconds=900.0)
    cloudsim = msgspec.structs.replace(CALM, exact=True)
    outcome = simulate(scripted({"a": "one"}, plans), two_nodes(), containers, cloudsim)
    assert result_of(outcome).migrations == 2
    assert seen[-1].nodes.names[seen[-1].tasks.node[0]] == "one"


def test_moved_container_has_a_new_id_and_continues_the_windows_and_samples_of_the_old_one() -> None:
    plans, seen = once(1200.0, Move(task="a", node="one", target="two", reasons=()))
    # The second service has a second container from then on: it inherits nothing.
    containers = workload((0.5, 625 * MB), (0.25, MB), (0.125, MB), seconds=2400.0, arrivals=[0, 0, 1210])
    containers = replace(containers, services=("a", "b", "b"))
    simulate(scripted({"a": "one", "b": "two"}, plans), two_nodes(cpu_cores=4), containers, CALM)
    before = next(each for each in seen if each.at == unix(1200.0)).tasks
    after = next(each for each in seen if each.at == unix(1500.0)).tasks
    assert (before.ids, after.ids) == (("a", "b"), ("a~1", "b", "c"))
    assert np.count_nonzero(~np.isnan(before.windows.amounts[0, :, 0])) == 4
    np.testing.assert_allclose(after.windows.amounts[0, -5:, 0], 0.5)
    assert np.count_nonzero(~np.isnan(after.windows.amounts[2, :, 0])) == 1
    # A sixteenth of the samples may not be counted yet.
    assert after.observed_seconds[0] > before.observed_seconds[0]
    assert after.observed_seconds[0] == pytest.approx(after.observed_seconds[1], rel=1 / 15)
    assert after.observed_seconds[2] < 600
    assert after.mean[0, 0] == pytest.approx(0.5, rel=0.02)
    # It has been on its new node since the end of the move, of ten seconds.
    assert after.settled_seconds[:2].tolist() == [290.0, 1500.0]
    assert after.came_from.tolist() == [0, NOWHERE, NOWHERE]


def test_move_that_agents_do_not_show_in_time_is_undone() -> None:
    plans, seen = once(300.0, Move(task="a", node="one", target="two", reasons=()))
    hasty = CollectorConfig(control=ControlConfig(verify_seconds=1.0))
    containers = workload((1.0, 625 * MB), seconds=900.0)
    outcome = simulate(scripted({"a": "one"}, plans), two_nodes(), containers, CALM, config=hasty)
    assert result_of(outcome).migrations == 2
    assert seen[-1].nodes.names[seen[-1].tasks.node[0]] == "one"


def test_node_goes_off_when_its_last_container_has_left_it() -> None:
    plans, seen = once(
        300.0,
        Move(task="a", node="one", target="two", reasons=()),
        PowerOff(node="one", reasons=()),
    )
    outcome = simulate(
        scripted({"a": "one"}, plans), two_nodes(), workload((1.0, 625 * MB), seconds=900.0), CALM
    )
    # Ten seconds for the move, and three until the agents show it.
    assert result_of(outcome).node_hours * 3600 == pytest.approx(900 + 313)
    assert seen[-1].nodes.on.tolist() == [False, True]
    assert result_of(outcome).switched_off == 1


def test_container_on_a_node_that_boots_starts_when_it_is_up_and_the_boot_is_charged() -> None:
    hosts = [msgspec.structs.replace(PLAIN, on=False, boot_seconds=60, boot_joules=3000)]
    outcome = simulate(scripted({"a": "node"}), hosts, workload((1.0, 0.0)), CALM)
    assert outcome.account.total.joules == pytest.approx(3000 + 540 * 200)
    assert result_of(outcome).switched_on == 1


def test_move_to_a_node_without_power_waits_for_its_boot() -> None:
    hosts = [PLAIN, msgspec.structs.replace(PLAIN, name="other", on=False, boot_seconds=60)]
    plans, _ = once(
        300.0,
        PowerOn(node="other", reasons=()),
        Move(task="a", node="node", target="other", reasons=()),
    )
    outcome = simulate(scripted({"a": "node"}, plans), hosts, workload((1.0, 625 * MB)), CALM)
    # Booting draws nothing here; from second 360 both are on, and for ten seconds both work.
    assert outcome.account.total.joules == pytest.approx(360 * 200 + 240 * 300 + 10 * 100)


def test_jobs_on_an_overloaded_host_take_longer() -> None:
    containers = workload((1.0, 0.0), (1.0, 0.0), lifetimes=[100.0, 100.0], kind=TaskKind.JOB)
    hosts = [PLAIN]
    outcome = simulate(scripted({"a": "node", "b": "node"}), hosts, containers)
    result = result_of(outcome)
    assert result.finished == 2
    assert result.job_lateness_ratio == pytest.approx(1.0)
    assert result.overloaded_node_time_ratio[Resource.CPU] == pytest.approx(200 / 600)


def test_services_end_at_their_time_however_slow_they_are() -> None:
    containers = workload((1.0, 0.0), (1.0, 0.0), lifetimes=[100.0, 100.0], kind=TaskKind.SERVICE)
    result = result_of(simulate(scripted({"a": "node", "b": "node"}), [PLAIN], containers))
    assert result.overloaded_node_time_ratio[Resource.CPU] == pytest.approx(100 / 600)


def test_arrivals_that_fit_nowhere_are_refused_or_wait_for_room() -> None:
    containers = workload((1.0, 0.0), (1.0, 0.0), arrivals=[0.0, 10.0], lifetimes=[100.0, 100.0])
    refused = result_of(simulate("first-fit", [PLAIN], containers))
    assert (refused.placed, refused.refused) == (1, 1)
    waits = Simulation(delay_seconds=0.0, decide_seconds=60.0, when_full="wait")
    later = result_of(simulate("first-fit", [PLAIN], containers, waits))
    assert (later.placed, later.placed_later, later.refused, later.finished) == (1, 1, 0, 2)


def test_all_containers_of_a_host_without_memory_die_if_the_scenario_kills() -> None:
    containers = workload((0.1, GIGABYTE * 0.6), (0.1, GIGABYTE * 0.6), arrivals=[0.0, 100.0])
    place = scripted({"a": "node", "b": "node"})
    assert result_of(simulate(place, [PLAIN], containers)).died == 0
    kills = Simulation(out_of_memory="kill")
    result = result_of(simulate(place, [PLAIN], containers, kills))
    assert result.died == 2
    # They were more than there is for no time at all.
    assert result.overloaded_node_time_ratio[Resource.MEMORY] <= 60 / 600


def test_cut_container_uses_no_more_than_it_is_promised() -> None:
    plans, _ = once(300.0, Cut(task="a", node="node", allocated=Quantities(cpu_cores=0.5), reasons=()))
    outcome = simulate(scripted({"a": "node"}, plans), [PLAIN], workload((1.0, 0.0)))
    assert outcome.account.total.joules == pytest.approx(300 * 200 + 300 * 150)
    assert result_of(outcome).cuts == 1


def test_killed_job_starts_over_where_it_is_sent() -> None:
    plans, _ = once(300.0, Kill(task="a", node="one", target="two", reasons=()))
    containers = workload((1.0, 0.0), seconds=900.0, lifetimes=[400.0], kind=TaskKind.JOB)
    result = result_of(simulate(scripted({"a": "one"}, plans), two_nodes(), containers))
    assert (result.kills, result.killed_placed_again, result.finished) == (1, 1, 1)
    assert result.job_lateness_ratio == pytest.approx(700 / 400 - 1)


def test_lower_bound_is_all_work_at_the_best_point_of_the_best_host() -> None:
    best = msgspec.structs.replace(PLAIN, name="best", cpu_cores=2, watts=(100, 200))
    outcome = simulate(scripted({"a": "node"}), [PLAIN, best], workload((0.5, 0.0)))
    assert outcome.account.total.lower_bound_joules == pytest.approx(600 * 0.5 * 100)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0, 1e8)), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(0, 1),
)
def test_energy_lies_between_the_bound_and_all_hosts_at_full_load(
    containers: list[tuple[float, float]], nodes: int, kind: int
) -> None:
    hosts = [msgspec.structs.replace(PLAIN, count=nodes)]
    outcome = simulate("first-fit", hosts, workload(*containers, kind=kind))
    result = result_of(outcome)
    assert result.placed + result.refused == result.arrived == len(containers)
    assert result.lower_bound_kwh <= result.energy_kwh * (1 + 1e-9)
    assert outcome.account.total.joules <= nodes * 200 * 600 * (1 + 1e-9)
    assert result.node_hours == pytest.approx(nodes * 600 / 3600)


def test_same_seed_gives_the_same_run() -> None:
    containers = workload(*[(0.2, 1e6)] * 8)
    hosts = [msgspec.structs.replace(PLAIN, count=4)]
    first, again = (msgspec.to_builtins(result_of(simulate("random", hosts, containers))) for _ in "ab")
    del first["timing"], again["timing"]
    assert first == again


def test_points_add_up_to_the_total() -> None:
    outcome = simulate("first-fit", [PLAIN], workload((0.5, 0.0), (0.2, 0.0), arrivals=[0.0, 130.0]))
    account = outcome.account
    assert sum(moment.joules for moment in account.moments) == pytest.approx(account.total.joules)
    assert np.sum([moment.seconds for moment in account.moments]) == pytest.approx(600)


def test_container_that_waits_too_long_is_refused() -> None:
    load = workload((0.6, 0), (0.6, 0), seconds=600.0, requested=[(0.6, 0), (0.6, 0)])
    waits = Simulation(delay_seconds=0.0, decide_seconds=60, when_full="wait")
    patient = simulate("binpack", [PLAIN], load, waits)
    assert patient.account.counts["waiting_at_end"] == 1
    hasty = simulate("binpack", [PLAIN], load, msgspec.structs.replace(waits, patience_seconds=100.0))
    assert hasty.account.counts["waiting_at_end"] == 0
    assert hasty.account.counts["refused"] == 1


def killing(snapshot: Snapshot, request: Request, settings: PolicySettings) -> Ranking:
    """Kills all running containers for a new one, except for `a`, which waits for an empty node."""
    del settings
    running = [name for name, on in zip(snapshot.tasks.ids, snapshot.tasks.node, strict=True) if on == 0]
    full = bool(running) and request.service == "a"
    return Ranking(
        rows=np.zeros(0 if full else 1, dtype=np.intp),
        scores=np.zeros(0 if full else 1),
        score_is="fixed",
        refused=np.zeros(1, dtype=np.int8),
        explain=lambda _: (),
        needs=lambda _: tuple(Kill(task=name, node="node", target=None, reasons=()) for name in running),
    )


def test_killed_container_is_placed_again_when_there_is_room_and_counts_once() -> None:
    load = workload((0.6, 0), (0.6, 0), arrivals=[0.0, 100.0], lifetimes=[300.0, 150.0])
    short_of_patience = Simulation(
        delay_seconds=0.0, decide_seconds=60, when_full="wait", patience_seconds=10.0
    )
    policy = Policy(name="killing", summary="ends what runs", place=killing)
    result = result_of(simulate(policy, [PLAIN], load, short_of_patience))
    assert (result.placed, result.placed_later, result.refused) == (2, 0, 0)
    assert (result.kills, result.killed_placed_again, result.finished) == (1, 1, 2)
    assert (result.placed_ratio, result.waited_p90_seconds) == (1.0, 0.0)


def test_results_have_the_waiting_time_of_containers() -> None:
    load = workload((0.6, 0), (0.6, 0), lifetimes=[100.0, 100.0])
    waits = Simulation(delay_seconds=0.0, decide_seconds=60, when_full="wait")
    result = result_of(simulate("binpack", [PLAIN], load, waits))
    assert (result.placed, result.placed_later) == (1, 1)
    assert result.waited_p50_seconds == 60.0  # between one that came at once, and one after two minutes


def test_results_list_the_nodes_at_the_end() -> None:
    outcome = simulate("spread", [PLAIN], workload((0.25, 0.5 * GIGABYTE), (0.25, 0.25 * GIGABYTE)))
    (node,) = outcome.nodes.values()
    assert (node.on, node.containers) == (True, 2)
    assert (node.used_ratio[Resource.CPU], node.used_ratio[Resource.MEMORY]) == (0.5, 0.75)
