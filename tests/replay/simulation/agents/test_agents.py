"""Policies see what agents report, and nothing of what is to come."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from collector.decide.policies.interface import Plan
from collector.snapshot.tables import Snapshot
from replay.setup.scenario import Host, Simulation
from replay.setup.workload import Workload, always_running
from replay.simulation.agents.samples import AgentSettings
from replay.simulation.cluster import unix
from tests.replay.setups import PLAIN, recorded, scripted, simulate

EXACT = Simulation(exact=True)


def machines(*percent: Sequence[float], names: str = "ab") -> Workload:
    use = recorded(*percent)
    requested = np.full((len(percent), 4), np.nan)
    requested[:, 0], requested[:, 1] = 1.0, 1e6
    return always_running(list(names[: len(percent)]), requested, use)


def watched(
    percent: Sequence[float],
    simulation: Simulation,
    *,
    host: Host = PLAIN,
    earlier: Workload | None = None,
) -> list[Snapshot]:
    """The snapshots that a policy gets while a machine uses this."""
    seen: list[Snapshot] = []

    def plans(snapshot: Snapshot) -> Plan:
        seen.append(snapshot)
        return Plan()

    simulate(scripted({"a": "node"}, plans), [host], machines(percent), simulation, earlier=earlier)
    return seen


def test_exact_policies_see_the_current_demand() -> None:
    seen = watched([10, 20, 30, 40], EXACT)
    assert [snapshot.tasks.used[0, 0] for snapshot in seen] == pytest.approx([0.2, 0.3])
    assert seen[-1].tasks.windows.amounts[0, -2:, 0] == pytest.approx([0.2, 0.3])


def test_agents_report_usage_and_exact_ones_demand() -> None:
    small = msgspec.structs.replace(PLAIN, cpu_cores=0.5)
    assert watched([80] * 4, EXACT, host=small)[-1].tasks.used[0, 0] == pytest.approx(0.8)
    assert watched([80] * 4, Simulation(), host=small)[-1].tasks.used[0, 0] == pytest.approx(0.5)


def test_a_node_that_is_short_has_an_open_alert() -> None:
    seen = watched([95, 95, 20, 20, 20], Simulation())
    assert [bool(snapshot.nodes.bottleneck[0, 0]) for snapshot in seen] == [True, False, False]


def test_resources_that_the_trace_does_not_have_are_unknown() -> None:
    snapshot = watched([10, 20, 30], Simulation())[0]
    assert not np.isnan(snapshot.nodes.used[0, 0])
    assert np.isnan(snapshot.nodes.used[0, 1:]).all()
    assert np.isnan(snapshot.tasks.used[0, 1:]).all()


def test_a_decision_comes_after_its_delay() -> None:
    seen = watched([10, 20, 30], Simulation(delay_seconds=5.0))
    assert [snapshot.at for snapshot in seen] == [unix(305.0)]
    assert seen[0].nodes.report_age_seconds[0] == 5.0


def test_the_future_does_not_change_earlier_reports() -> None:
    calm = watched([10, 20, 30, 40, 40, 40], EXACT)
    wild = watched([10, 20, 30, 40, 99, 99], EXACT)
    for one, other in zip(calm[:3], wild[:3], strict=True):
        assert one.tasks.used.tolist() == other.tasks.used.tolist()
        assert one.tasks.envelope.tolist() == other.tasks.envelope.tolist()


def test_an_earlier_recording_makes_a_service_known_from_the_start() -> None:
    seen = watched([10] * 4, Simulation(), earlier=machines([30] * 40))
    assert seen[0].services.profiled[0]
    assert seen[0].services.envelope[0, 0] == pytest.approx(0.3, rel=0.02)
    assert not watched([10] * 4, Simulation())[0].services.profiled[0]
    assert np.isnan(seen[0].nodes.history[0, :-2]).all()


def test_alerts_need_as_many_seconds_as_live() -> None:
    slow, fast = AgentSettings.sampling_every(300.0), AgentSettings.sampling_every(3.0)
    assert slow.bottleneck.samples == 1
    assert fast == AgentSettings.sampling_every(3.0)
    assert fast.bottleneck.samples > 1
