"""Weights of services on a simulated node whose truth is known."""

import random
from math import fsum, inf, nan, sqrt
from pathlib import Path

import pytest

from powermodels.common.interface import Estimate, HostFacts, Load, Part, Scope
from powermodels.estimator import Estimator
from powermodels.learning.service_weights import ServiceWeights
from powermodels.models.adaptive import LearnedWeights
from powermodels.models.stored import load
from wire.messages import Gap, PowerSource

SAMPLE_SECONDS = 3.0
SYSTEM = ""


def uses(names: list[str], seed: int, hours: float = 1.0) -> list[dict[str, float]]:
    """CPU usage of services that change their load every minute or two, in shares of the host."""
    chance = random.Random(seed)  # noqa: S311 - the same load every time
    levels = dict.fromkeys(names, 0.1)
    taken = []
    for _ in range(int(hours * 3600 / SAMPLE_SECONDS)):
        for name in names:
            if chance.random() < 0.03:
                levels[name] = chance.choice([0.0, 0.03, 0.06, 0.12, 0.25])
        used = {name: max(0.0, level * chance.gauss(1, 0.05)) for name, level in levels.items()}
        taken.append({**used, SYSTEM: abs(chance.gauss(0.01, 0.003))})
    return taken


def true_watts(used: dict[str, float], truth: dict[str, float]) -> float:
    together = fsum(used.values())
    weighted = fsum(truth.get(name, 1.0) * use for name, use in used.items())
    return 40 + 60 * (0.6 * together + 0.4 * sqrt(together)) * weighted / max(together, 1e-9)


def learned(
    truth: dict[str, float], noise: float = 0.005, seed: int = 1, hours: float = 1.0
) -> ServiceWeights:
    """Weights after a time on a curve that is not the true one."""
    weights, chance = ServiceWeights(), random.Random(seed)  # noqa: S311 - the same noise every time
    for used in uses(list(truth), seed, hours):
        together = fsum(used.values())
        curve_watts = 70 * (0.5 * together + 0.5 * sqrt(together))
        watts = true_watts(used, truth) * chance.gauss(1, noise)
        weights.observe(
            watts, {name: curve_watts * use / together for name, use in used.items()}, SAMPLE_SECONDS
        )
    return weights


@pytest.mark.parametrize(("noise", "error"), [(0.005, 0.1), (0.02, 0.15)])
@pytest.mark.parametrize("seed", range(3))
def test_a_service_that_takes_twice_the_power_is_learned(noise: float, error: float, seed: int) -> None:
    weights = learned({"hot": 2.0, "cold": 1.0}, noise, seed, hours=2)
    assert weights.are_used
    assert weights.weight("hot") / weights.weight("cold") == pytest.approx(2.0, rel=error)
    assert weights.weight("cold") < 1 < weights.weight("hot")
    assert weights.error_share < 0.8


def test_ten_services_are_distinguished() -> None:
    weights = learned({f"s{number}": 1.0 + number % 2 for number in range(10)}, hours=3)
    for number in range(0, 10, 2):
        ratio = weights.weight(f"s{number + 1}") / weights.weight(f"s{number}")
        assert ratio == pytest.approx(2.0, rel=0.25)


@pytest.mark.parametrize("seed", range(4))
def test_equal_services_keep_the_common_weight(seed: int) -> None:
    weights = learned({"a": 1.0, "b": 1.0}, 0.01, seed)
    assert not weights.are_used
    assert (weights.weight("a"), weights.error_share) == (1.0, 1.0)


def test_noise_teaches_nothing() -> None:
    weights, chance = ServiceWeights(), random.Random(5)  # noqa: S311 - the same noise every time
    for used in uses(["a", "b"], 5):
        weights.observe(chance.uniform(50, 150), {name: 60 * use for name, use in used.items()}, 3.0)
    assert not weights.are_used


def test_a_service_with_a_constant_load_keeps_the_weight_one() -> None:
    weights = ServiceWeights()
    for used in uses(["hot", "cold"], 3):
        steady = {**used, "steady": 0.2}
        watts = true_watts(steady, {"hot": 2.0, "steady": 3.0})
        weights.observe(watts, {name: 60 * use for name, use in steady.items()}, 3.0)
    assert weights._services["steady"].weight == pytest.approx(1.0, abs=0.05)


def test_memory_per_service_is_constant_and_limited() -> None:
    weights = ServiceWeights()
    for number in range(3000):
        weights.observe(100.0, {f"job-{number}": 10.0}, 3.0)
    assert len(weights._services) <= 1000


@pytest.mark.slow
def test_jobs_that_ended_do_not_keep_new_services_from_being_learned() -> None:
    """Though the agent restarts more often than once a day."""
    weights = ServiceWeights()
    for day in range(4):
        for window in range(2800):
            job = {f"job-{day}-{window}": 10.0} if window < 300 else {}
            weights.observe(30.0, {"web": 20.0, **job}, 30.0)
        weights = ServiceWeights.restored(weights.learned())
    weights.observe(30.0, {"web": 20.0, "new": 10.0}, 30.0)
    assert {"web", "new"} <= weights.learned().services.keys()


SUMS = (60.0, 30.0, 15.0, 1.0, 30.0)


@pytest.mark.parametrize(
    "stored",
    [
        LearnedWeights({"a": (0.0, 5.0)}, 1.0, SUMS),
        LearnedWeights({"a": (-1.0, 5.0), "b": (1.0, 5.0)}, 0.0, SUMS),
        LearnedWeights({"a": (inf, 5.0), "b": (1.0, -5.0), "c": (nan, nan)}, nan, SUMS),
        LearnedWeights({"a": (2.0, 5.0)}, 1.0, (60.0, 30.0, 15.0, -1.0, 30.0)),
        LearnedWeights({"a": (2.0, 5.0)}, 1.0, (nan, inf, 15.0, 1.0, 30.0)),
        LearnedWeights({f"s{number}": (1.0, 1.0) for number in range(5000)}, 1.0, SUMS),
    ],
)
def test_a_damaged_file_gives_weights_within_bounds(stored: LearnedWeights) -> None:
    weights = ServiceWeights.restored(stored)
    for _ in range(3):
        assert 0.25 <= weights.weight("a") <= 4.0
        assert 0.0 <= weights.error_share <= 1.0
        weights.observe(100.0, {"a": 20.0, "b": 30.0}, 30.0)
    kept = weights.learned()
    assert len(kept.services) <= 1000
    assert all(0.25 <= weight <= 4.0 and watts >= 0 for weight, watts in kept.services.values())


class TrueMeter:
    """A meter of the whole machine."""

    name, source, scope = "ipmi", PowerSource.IPMI, Scope.NODE
    error_ratio, period_seconds = 0.02, 0.0
    gap: Gap | None = None
    parts: tuple[Part, ...] = ()

    def __init__(self) -> None:
        self.now: float | None = None

    def watts(self, _: float) -> float | None:
        return self.now

    def describe(self) -> str:
        return "the truth"


TRUTH = {"hot": 2.0, "cold": 1.0}


def estimates(*, metered: bool, path: Path | None = None, most: int | None = None) -> list[Estimate]:
    facts = HostFacts("Xeon", sockets=1, cores=8, threads=16, memory_bytes=64 << 30)
    meter = TrueMeter()
    model = load(path) if path is not None and path.exists() else None
    estimator = Estimator(facts, [meter] if metered else [], model=model, model_path=path)
    taken = []
    for number, used in enumerate(uses(list(TRUTH), 2)[:most]):
        meter.now = true_watts(used, TRUTH)
        containers = {f"{name}-1": Load(use) for name, use in used.items() if name != SYSTEM}
        services = {f"{name}-1": name for name in TRUTH}
        whole = Load(fsum(used.values()))
        taken.append(estimator.estimate(number * SAMPLE_SECONDS, whole, containers, services=services))
    estimator.close()
    return taken


def watts_per_cpu(estimate: Estimate, name: str, used: dict[str, float]) -> float:
    return estimate.containers[f"{name}-1"].watts / used[name]


@pytest.mark.slow
def test_with_a_meter_watts_follow_the_weights_and_still_add_up() -> None:
    taken = estimates(metered=True)
    for each in taken:
        parts = (each.idle_watts, each.system_watts, *(share.watts for share in each.containers.values()))
        assert fsum(parts) == pytest.approx(each.watts, rel=1e-9)
    used = uses(list(TRUTH), 2)
    last = max(index for index, each in enumerate(used) if min(each["hot"], each["cold"]) > 0.02)
    ratio = watts_per_cpu(taken[last], "hot", used[last]) / watts_per_cpu(taken[last], "cold", used[last])
    assert ratio == pytest.approx(2.0, rel=0.15)
    hot = taken[last].containers["hot-1"]
    assert hot.power_weight > 1
    assert hot.error_ratio < estimates_error_without(taken)


@pytest.mark.slow
@pytest.mark.parametrize("metered", [True, False])
def test_a_restarted_agent_keeps_the_weights(tmp_path: Path, *, metered: bool) -> None:
    path = tmp_path / "model.json"
    before = estimates(metered=True, path=path)[-1].containers
    after = estimates(metered=metered, path=path, most=1)[0].containers
    assert before["hot-1"].power_weight > 1
    for name, share in before.items():
        assert after[name].power_weight == pytest.approx(share.power_weight)


def estimates_error_without(taken: list[Estimate]) -> float:
    """The error of containers early on, while all CPU time counted the same."""
    return max(share.error_ratio for share in taken[50].containers.values())


def test_without_a_meter_all_cpu_time_counts_the_same() -> None:
    taken = estimates(metered=False)
    assert {share.power_weight for each in taken for share in each.containers.values()} == {1.0}
