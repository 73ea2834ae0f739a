from pathlib import Path

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


def sampler(folder: Path | None, *, is_slice: bool = False, **settings: str) -> PowerSampler:
    return PowerSampler(
        config.PowerConfig(**settings),
        NOTHING_HERE,
        NOTHING_HERE,
        energy_file=None if folder is None else folder / "energy.json",
        is_slice=is_slice,
    )


def test_containers_system_and_idle_are_the_node_and_joules_are_watts_over_time(tmp_path: Path) -> None:
    clock = Clock()
    meter = sampler(tmp_path)
    meter.begin(clock.monotonic_seconds)
    taken = measured(meter, clock, {"a": Container(used=cpu(1.0, 1000)), "b": Container(used=cpu(0.5, 500))})
    for each in taken:
        parts = each.node.idle_watts + each.node.system_watts + sum(c.watts for c in each.containers.values())
        assert parts == pytest.approx(each.node.watts)
    assert taken[-1].node.joules_total == pytest.approx(sum(each.node.watts * 3.0 for each in taken))
    assert taken[-1].containers["a"].watts > taken[-1].containers["b"].watts > 0


def test_energy_counters_continue_after_a_restart(tmp_path: Path) -> None:
    clock, containers = Clock(), {"a": Container(used=cpu(1.0, 1000))}
    first = sampler(tmp_path)
    before = measured(first, clock, containers)[-1]
    first.close()
    after = measured(sampler(tmp_path), clock, containers, 1)[0]
    assert after.node.joules_total == pytest.approx(before.node.joules_total + after.node.watts * 3.0)
    assert after.containers["a"].joules_total > before.containers["a"].joules_total


def test_counters_without_a_file_start_at_zero() -> None:
    clock = Clock()
    measured(sampler(None), clock, {})
    again = measured(sampler(None), clock, {}, 1)[0]
    assert again.node.joules_total == pytest.approx(again.node.watts * 3.0)


@pytest.mark.parametrize(
    ("policy", "shared"),
    [("none", False), ("equal", True), ("by-use", True), ("by-reservation", True)],
)
def test_idle_power_is_divided_by_the_policy(policy: str, *, shared: bool, tmp_path: Path) -> None:
    meter = sampler(tmp_path, idle_policy=policy)
    taken = measured(
        meter, Clock(), {"a": Container(used=cpu(1.0, 1000)), "b": Container(used=cpu(0.5, 500))}
    )[-1]
    idle_watts = sum(each.idle_watts for each in taken.containers.values())
    assert (idle_watts > 0) is shared
    assert idle_watts <= taken.node.idle_watts * 1.000001


def test_slice_without_a_meter_has_a_gap(tmp_path: Path) -> None:
    meter = sampler(tmp_path, is_slice=True)
    (gap,) = meter.gaps
    assert gap.why.startswith("a meter measures the whole machine, and host.cgroup is a part of it")


def test_power_curve_of_a_sample(tmp_path: Path) -> None:
    taken = measured(sampler(tmp_path), Clock(), {}, 1)[0]
    assert taken.curve.cpu_watts[0] == 0
    assert list(taken.curve.cpu_watts) == sorted(taken.curve.cpu_watts)
