"""Policies for promises of availability on the workloads of the study of QoS-driven scheduling (G. Farias).

`wattpack replay scenarios/qos-NAME.toml` prints the same figures.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.common.progress import Progress
from bench.common.results import Figure
from replay.setup.scenario import read_scenario
from replay.simulation.compare import compare
from replay.simulation.results import ClassResult, PolicyResult
from replay.sources import with_data, workloads
from wattpack.datasets.catalogue import search_path
from wattpack.datasets.traces import locate_in

_FOLDER = Path("scenarios")
_BY_PRIORITY = {1: ("free", 40, 56), 2: ("batch", 200, 21)}
"""Per validation: a class, and the number of its instances that run to the end, and that wait to the end."""
_EXACT: Mapping[str, tuple[float, float]] = {"batch": (0.885, 0.915), "free": (0.45, 0.49)}
"""Bounds of the mean availability per class, with the rules of the study."""
_EXACT_LOWEST = 0.40
_EXACT_PREEMPTIONS = (2500, 6000)
_HELD: Mapping[str, float] = {"batch": 0.895, "free": 0.485}
"""Lower bounds of the mean availability per class, with a hold against churn."""
_HELD_BELOW_MEAN = 0.03
_HELD_PREEMPTIONS = 1 / 3
"""Upper bound, relative to the rules of the study."""
_CONTROLLERS = {
    "independent": (47 / 53, 0.911),
    "concurrent": (48 / 53, 0.925),
    "aggregated": (100 / 106, 0.933),
}
"""Per mode: the mean availability by priority, which follows from the room for 100 of 106 pods, and that of
the study's policy."""
_POINT = 0.01
_ROUNDING = 0.0005
_PASS_P99_MS = 250.0
_OPERATIONS = 161e6
"""Operations of the study's optimised policy at the higher level of contention."""
_CLASS_A_KEPT = 0.9975


def validation(number: int, data: Path | None, progress: Progress) -> Iterator[Figure]:
    """Replay a validation by priority, with the rules of the study, and with our hold."""
    results = _replay(f"qos-validation-{number}", data, progress)
    prefix = f"validation_{number}"
    promise, running, waiting = _BY_PRIORITY[number]
    by_priority = _slo(results["priority"])[promise]
    kept = round(by_priority.met_ratio * by_priority.requests)
    starved = by_priority.requests - kept
    yield _equal(f"{prefix}_priority_{promise}_running", kept, running)
    yield _equal(f"{prefix}_priority_{promise}_starved", starved, waiting)
    exact, held = results["exact"], results["qos-driven"]
    for name, figures in _slo(exact).items():
        at_least, at_most = _EXACT.get(name, (None, None))
        mean, lowest = figures.mean_availability, figures.min_availability
        yield Figure(
            name=f"{prefix}_exact_{name}_mean", value=mean, unit="", at_least=at_least, at_most=at_most
        )
        yield Figure(name=f"{prefix}_exact_{name}_lowest", value=lowest, unit="", at_least=_EXACT_LOWEST)
    fewest, most = _EXACT_PREEMPTIONS
    yield Figure(
        name=f"{prefix}_exact_preemptions",
        value=_preemptions(exact),
        unit="",
        at_least=fewest,
        at_most=most,
    )
    for name, figures in _slo(held).items():
        mean, lowest = figures.mean_availability, figures.min_availability
        yield Figure(name=f"{prefix}_held_{name}_mean", value=mean, unit="", at_least=_HELD.get(name))
        yield Figure(
            name=f"{prefix}_held_{name}_lowest_below_mean",
            value=mean - lowest,
            unit="",
            at_most=_HELD_BELOW_MEAN,
        )
    yield Figure(
        name=f"{prefix}_held_preemptions_to_exact",
        value=_preemptions(held) / max(1, _preemptions(exact)),
        unit="",
        at_most=_HELD_PREEMPTIONS,
    )


def controllers(data: Path | None, progress: Progress) -> Iterator[Figure]:
    """Replay deployments of two pods in each mode."""
    for mode, (by_priority, in_study) in _CONTROLLERS.items():
        results = _replay(f"qos-controllers-{mode}", data, progress)
        yield _equal(f"controllers_{mode}_priority", _mean(results["priority"]), by_priority, _ROUNDING)
        yield Figure(
            name=f"controllers_{mode}_qos_driven",
            value=_mean(results["qos-driven"]),
            unit="",
            at_least=in_study - _POINT,
        )


def google_hour(level: str, data: Path | None, progress: Progress) -> Iterator[Figure]:
    """Replay the first hour of 620 hosts; only the higher level of contention has bounds."""
    results = _replay(f"qos-google-{level}", data, progress)
    prefix, is_bounded = f"google_{level}", level == "higher"
    ours = results["qos-driven"]
    extra = _penalty(results["priority"]) - _penalty(ours)
    yield Figure(
        name=f"{prefix}_extra_penalty_of_priority",
        value=extra / 3600,
        unit="core hours",
        at_least=_SMALLEST if is_bounded else None,
    )
    yield Figure(
        name=f"{prefix}_pass_p99",
        value=ours.timing.rebalance_p99_ms,
        unit="ms of CPU",
        at_most=_PASS_P99_MS if is_bounded else None,
    )
    yield Figure(
        name=f"{prefix}_operations",
        value=_operations(ours),
        unit="",
        at_most=_OPERATIONS if is_bounded else None,
    )
    for policy, result in results.items():
        of_policy = f"{prefix}_{policy.replace('-', '_')}"
        yield Figure(name=f"{of_policy}_penalty", value=_penalty(result) / 3600, unit="core hours")
        yield Figure(name=f"{of_policy}_preemptions", value=_preemptions(result), unit="")
        for name, figures in _slo(result).items():
            bound = _CLASS_A_KEPT if is_bounded and name == "A" and policy == "qos-driven" else None
            one = f"{of_policy}_{name}"
            yield Figure(name=f"{one}_kept", value=figures.met_ratio, unit="", at_least=bound)
            yield Figure(name=f"{one}_mean", value=figures.mean_availability, unit="")
            yield Figure(name=f"{one}_gini", value=figures.gini, unit="")


_SMALLEST = 1e-9
"""A bound just above 0."""


def _replay(name: str, data: Path | None, progress: Progress) -> dict[str, PolicyResult]:
    locate = locate_in(search_path(data))
    scenario = with_data(read_scenario(_FOLDER / f"{name}.toml"), locate)
    workload, earlier = workloads(scenario, _FOLDER, locate)
    return compare(
        list(scenario.run),
        scenario,
        workload,
        earlier,
        lambda policy, total: progress.track(f"{name}: {policy}", total, " s"),
    ).policies


def _equal(name: str, value: float, expected: float, rounding: float = 0.0) -> Figure:
    return Figure(name=name, value=value, unit="", at_least=expected - rounding, at_most=expected + rounding)


def _mean(result: PolicyResult) -> float:
    """The mean availability of all requests."""
    classes = _slo(result).values()
    total = sum(each.mean_availability * each.requests for each in classes)
    return total / sum(each.requests for each in classes)


def _slo(result: PolicyResult) -> dict[str, ClassResult]:
    assert isinstance(result.slo, dict)
    return result.slo


def _penalty(result: PolicyResult) -> float:
    assert isinstance(result.penalty, float)
    return result.penalty


def _preemptions(result: PolicyResult) -> int:
    assert isinstance(result.preemptions, int)
    return result.preemptions


def _operations(result: PolicyResult) -> int:
    assert isinstance(result.operations, int)
    return result.operations
