from pathlib import Path

import msgspec
import pytest

from agent import config
from agent.sampling.power import PowerSample, PowerSampler
from tests.agent.samples import Clock, Container, cpu, node_sample

NOTHING_HERE = Path("/nonexistent")


def measured(
    meter: PowerSampler, clock: Clock, containers: dict[str, Container], samples: int = 5
) -> list[PowerSample]:
    taken = []
    for _ in range(samples):
        clock.advance()
        seen = node_sample(clock, containers, used=cpu(2.0, 4000))
        taken.append(meter.measure(seen.rates, clock.monotonic_seconds))
    return taken


def settings(folder: Path, **changed: str) -> config.PowerConfig:
    kept = config.PowerConfig(model_file=str(folder / "model.json"), energy_file=str(folder / "energy.json"))
    return msgspec.structs.replace(kept, **changed)


def test_containers_system_and_idle_are_the_node_and_joules_are_watts_over_time(tmp_path: Path) -> None:
    clock = Clock()
    meter = PowerSampler(settings(tmp_path), NOTHING_HERE, NOTHING_HERE)
    meter.begin(clock.monotonic_seconds)
    taken = measured(meter, clock, {"a": Container(used=cpu(1.0, 1000)), "b": Container(used=cpu(0.5, 500))})
    for each in taken:
        parts = each.node.idle_watts + each.node.system_watts + sum(c.watts for c in each.containers.values())
        assert parts == pytest.approx(each.node.watts)
    assert taken[-1].node.joules_total == pytest.approx(sum(each.node.watts * 3.0 for each in taken))
    assert taken[-1].containers["a"].watts > taken[-1].containers["b"].watts > 0


def test_energy_counters_continue_after_a_restart(tmp_path: Path) -> None:
    clock, containers = Clock(), {"a": Container(used=cpu(1.0, 1000))}
    first = PowerSampler(settings(tmp_path), NOTHING_HERE, NOTHING_HERE)
    before = measured(first, clock, containers)[-1]
    first.close()
    after = measured(PowerSampler(settings(tmp_path), NOTHING_HERE, NOTHING_HERE), clock, containers, 1)[0]
    assert after.node.joules_total == pytest.approx(before.node.joules_total + after.node.watts * 3.0)
    assert after.containers["a"].joules_total > before.containers["a"].joules_total


def test_counters_without_a_file_start_at_zero(tmp_path: Path) -> None:
    clock, nowhere = Clock(), settings(tmp_path, energy_file="")
    measured(PowerSampler(nowhere, NOTHING_HERE, NOTHING_HERE), clock, {})
    again = measured(PowerSampler(nowhere, NOTHING_HERE, NOTHING_HERE), clock, {}, 1)[0]
    assert again.node.joules_total == pytest.approx(again.node.watts * 3.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("policy", "shared"),
    [("none", False), ("equal", True), ("by-use", True), ("by-reservation", True)],
)
def test_idle_power_is_divided_by_the_policy(policy: str, *, shared: bool, tmp_path: Path) -> None:
    meter = PowerSampler(settings(tmp_path, idle_policy=policy), NOTHING_HERE, NOTHING_HERE)
    taken = measured(
        meter, Clock(), {"a": Container(used=cpu(1.0, 1000)), "b": Container(used=cpu(0.5, 500))}
    )[-1]
    idle_watts = sum(each.idle_watts for each in taken.containers.values())
    assert (idle_watts > 0) is shared
    assert idle_watts <= taken.node.idle_watts * 1.000001


def test_slice_without_a_meter_has_a_gap(tmp_path: Path) -> None:
    meter = PowerSampler(settings(tmp_path), NOTHING_HERE, NOTHING_HERE, is_slice=True)
    (gap,) = meter.gaps
    assert gap.why.startswith("a meter measures the whole machine, and host.cgroup is a part of it")


def test_power_curve_of_a_sample(tmp_path: Path) -> None:
    taken = measured(PowerSampler(settings(tmp_path), NOTHING_HERE, NOTHING_HERE), Clock(), {}, 1)[0]
    assert taken.curve.cpu_watts[0] == 0
    assert list(taken.curve.cpu_watts) == sorted(taken.curve.cpu_watts)
