"""Policies see what agents would have told, and nothing of what is to come."""

from collections.abc import Sequence

import numpy as np
import pytest

from collector.policies.interface import Plan
from collector.snapshot.tables import Snapshot
from replay.setup.scenario import Learning, Simulation
from replay.setup.workload import Workload, always_running
from tests.replay.setups import PLAIN, recorded, scripted, simulate


def machines(*percent: Sequence[float], names: str = "ab") -> Workload:
    use = recorded(*percent)
    requested = np.full((len(percent), 4), np.nan)
    requested[:, 0], requested[:, 1] = 1.0, 1e6
    return always_running(list(names[: len(percent)]), requested, use)


def watched(
    percent: Sequence[float],
    simulation: Simulation,
    *,
    learning: Learning | None = None,
    earlier: Workload | None = None,
) -> list[Snapshot]:
    """The snapshots that a policy is given while a machine uses this."""
    seen: list[Snapshot] = []

    def plans(snapshot: Snapshot) -> Plan:
        seen.append(snapshot)
        return Plan()

    policy = scripted({"a": "node"}, plans)
    simulate(policy, [PLAIN], machines(percent), simulation, learning=learning, earlier=earlier)
    return seen


def test_exact_policies_see_what_is_wanted_now() -> None:
    seen = watched([10, 20, 30, 40], Simulation(exact=True))
    assert [snapshot.tasks.used[0, 0] for snapshot in seen] == pytest.approx([0.2, 0.3])
    assert seen[-1].tasks.history[0, :, 0] == pytest.approx([0.2, 0.3])


def test_small_changes_are_not_told_before_the_heartbeat() -> None:
    quiet = Simulation(heartbeat_seconds=1e9, threshold_points=10)
    seen = watched([50, 50, 55, 59, 61, 61], quiet)
    assert [snapshot.nodes.used[0, 0] for snapshot in seen] == pytest.approx([0.5, 0.5, 0.5, 0.61])
    told = watched([50, 50, 55, 59, 61, 61], Simulation(heartbeat_seconds=300))
    assert told[1].nodes.used[0, 0] == pytest.approx(0.55)


def test_decision_comes_after_its_delay() -> None:
    seen = watched([10, 20, 30], Simulation(delay_seconds=5.0))
    assert [snapshot.at for snapshot in seen] == [305.0]
    assert seen[0].nodes.report_age_seconds[0] == 5.0


def test_future_does_not_change_what_is_seen_before() -> None:
    simulation = Simulation(exact=True)
    calm = watched([10, 20, 30, 40, 40, 40], simulation)
    wild = watched([10, 20, 30, 40, 99, 99], simulation)
    for one, other in zip(calm[:3], wild[:3], strict=True):
        assert one.tasks.envelope.tolist() == other.tasks.envelope.tolist()
        assert one.tasks.variance.tolist() == other.tasks.variance.tolist()


def test_unknown_machine_is_reckoned_with_what_it_asks_for_until_it_was_seen_for_long_enough() -> None:
    seen = watched([10] * 8, Simulation(exact=True), learning=Learning(fewest_samples=3))
    assert [snapshot.tasks.envelope[0, 0] for snapshot in seen[:2]] == [1.0, 1.0]
    assert seen[2].tasks.envelope[0, 0] == pytest.approx(0.1, rel=0.02)
    assert seen[2].services.profiled[0]


def test_earlier_recording_makes_a_machine_known_from_the_start() -> None:
    earlier = machines([30] * 20)
    seen = watched([10] * 4, Simulation(exact=True), earlier=earlier)
    assert seen[0].tasks.samples[0] > 12
    assert 0.1 < seen[0].tasks.mean[0, 0] < 0.3
    assert seen[0].tasks.envelope[0, 0] == pytest.approx(0.3, rel=0.02)


def test_earlier_recording_of_others_tells_how_much_of_their_share_machines_use() -> None:
    earlier = machines([30] * 20, [50] * 20, names="xy")
    seen = watched([10] * 4, Simulation(exact=True), earlier=earlier)
    assert seen[0].tasks.samples[0] == 1
    assert seen[0].tasks.mean[0, 0] == pytest.approx(0.4, rel=0.02)
    assert seen[0].tasks.variance[0, 0] == pytest.approx(0.01, rel=0.1)
