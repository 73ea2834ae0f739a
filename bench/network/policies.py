"""`net-aware` and `net-optimal` on ge-kube's matrix: distance from the optimum, and duration.

First come random states of the paper's cluster, 12 nodes of 2 cores in 4 regions, then a cluster of 1,000
nodes. Every placement is checked with rules that are independent of the policies' code.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from bench.common.progress import Progress
from bench.common.results import Figure
from bench.network.states import State, brute_force, has_room, is_within_bound, random_state
from collector.decide.policies.interface import STALE_SECONDS, ApplicationPlacement
from collector.decide.policies.resolve import find_policy, with_settings
from collector.features.network.applications.in_turn import place_application
from collector.features.network.applications.problem import build
from collector.features.network.mesh.delays import Delays
from replay.contenders.net_optimal.policy import OptimalPlacement
from replay.contenders.table import POLICIES

_STATES = 1000
_LARGE_NODES, _LARGE_PODS, _LARGE_STATES, _LARGE_SOLVED = 1000, 50, 200, 10
_MOST_COMBINATIONS = 100_000
_WARM_UP = 20
_SAME = 1e-9
_BASELINES = ("first-fit", "round-robin", "spread", "least-allocated", "least-watts")
_MOST_OVER_PERCENT = 5.0
_MOST_GREEDY_MS, _MOST_EXACT_MS, _MOST_LARGE_GREEDY_MS, _MOST_LARGE_EXACT_MS = 2.0, 60.0, 20.0, 2000.0


@dataclass(slots=True)
class _Times:
    """Durations of placements, in milliseconds."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def p99(self) -> float:
        return float(np.quantile(self.wall, 0.99))


def figures(progress: Progress) -> Iterator[Figure]:
    """Measure quality and duration."""
    yield from _small(progress)
    yield from _baselines(progress)
    yield from _large(progress)


def _answer(state: State, policy: str, times: tuple[_Times, _Times] | None = None) -> ApplicationPlacement:
    """Place the application of a state. `times` are those of successful and of impossible placements."""
    choice = with_settings(find_policy(policy, "place", policies=POLICIES), {})
    wall, cpu = time.perf_counter(), time.process_time()
    answer = place_application(state.snapshot, state.requests, choice)
    if times is not None:
        which = times[0] if answer.nodes else times[1]
        which.wall.append(1e3 * (time.perf_counter() - wall))
        which.cpu.append(1e3 * (time.process_time() - cpu))
    return answer


def _is_valid(state: State, answer: ApplicationPlacement) -> bool:
    """Whether all containers are placed with room and within the bound, or none, with a reason."""
    if not answer.nodes:
        return bool(answer.why_not) and bool(answer.needed)
    return has_room(state, answer.nodes) and is_within_bound(state, answer.nodes)


def _small(progress: Progress) -> Iterator[Figure]:
    times = {name: (_Times(), _Times()) for name in ("net-aware", "net-optimal")}
    wrong = compared = equal = infeasible = missed = proven = 0
    over: list[float] = []
    for seed in range(_WARM_UP):
        _answer(random_state(seed), "net-optimal")
    with progress.track("states of 12 nodes", _STATES) as show:
        for seed in range(_STATES):
            # Each policy gets a new snapshot, so that it cannot use values that the other one cached.
            state = random_state(seed)
            greedy = _answer(state, "net-aware", times["net-aware"])
            optimal = _answer(random_state(seed), "net-optimal", times["net-optimal"])
            wrong += not (_is_valid(state, greedy) and _is_valid(state, optimal))
            best = brute_force(
                build(state.snapshot, state.requests, stale_seconds=STALE_SECONDS), _MOST_COMBINATIONS
            )
            if best is not None:
                compared += 1
                value = float("inf") if optimal.objective is None else optimal.objective.value
                equal += value == best or abs(value - best) < _SAME
            infeasible += optimal.objective is None
            proven += isinstance(optimal, OptimalPlacement) and optimal.gap_ratio == 0.0
            missed += optimal.objective is not None and greedy.objective is None
            if optimal.objective and optimal.objective.value and greedy.objective is not None:
                over.append(100 * (greedy.objective.value / optimal.objective.value - 1))
            show(seed + 1)
    yield Figure(name="states", value=_STATES, unit="states")
    yield Figure(name="infeasible_states", value=infeasible, unit="states")
    yield Figure(name="wrong_answers", value=wrong, unit="states", at_most=0)
    yield Figure(name="compared_with_brute_force", value=compared, unit="states")
    yield Figure(
        name="optimal_equals_brute_force", value=100 * equal / max(compared, 1), unit="%", at_least=100
    )
    yield Figure(
        name="optimal_proven", value=100 * proven / max(_STATES - infeasible, 1), unit="%", at_least=100
    )
    yield Figure(
        name="greedy_over_optimum_mean", value=float(np.mean(over)), unit="% of F", at_most=_MOST_OVER_PERCENT
    )
    yield Figure(name="greedy_over_optimum_p95", value=float(np.quantile(over, 0.95)), unit="% of F")
    yield Figure(name="greedy_is_optimal", value=100 * float(np.mean(np.array(over) < _SAME)), unit="%")
    yield Figure(name="greedy_found_none", value=missed, unit="feasible states")
    yield from _time_figures("greedy", times["net-aware"][0], _MOST_GREEDY_MS)
    yield from _time_figures("optimal", times["net-optimal"][0], _MOST_EXACT_MS)
    yield from _time_figures("greedy_refusal", times["net-aware"][1])
    yield from _time_figures("optimal_refusal", times["net-optimal"][1])


def _time_figures(name: str, times: _Times, at_most: float | None = None) -> Iterator[Figure]:
    yield Figure(name=f"{name}_p99", value=times.p99(), unit="ms", at_most=at_most)
    yield Figure(name=f"{name}_median", value=float(np.median(times.wall)), unit="ms")
    yield Figure(name=f"{name}_cpu_p99", value=float(np.quantile(times.cpu, 0.99)), unit="ms of CPU")


def _baselines(progress: Progress) -> Iterator[Figure]:
    """F of other policies, and how often they exceed the bound if they do not know the delays."""
    names = ("net-optimal", "net-aware", *_BASELINES)
    values: dict[str, list[float]] = {name: [] for name in names}
    broken, placed = dict.fromkeys(_BASELINES, 0), dict.fromkeys(_BASELINES, 0)
    with progress.track("states by other policies", _STATES // 4) as show:
        for seed in range(_STATES // 4):
            state = random_state(seed)
            answers = {name: _answer(state, name).objective for name in names}
            if None not in answers.values():
                for name, objective in answers.items():
                    values[name].append(objective.value if objective else 0.0)
            blind = replace(state, snapshot=state.snapshot.without_part(Delays))
            for name in _BASELINES:
                answer = _answer(blind, name)
                if answer.nodes and answers["net-optimal"] is not None:
                    placed[name] += 1
                    broken[name] += not is_within_bound(state, answer.nodes)
            show(seed + 1)
    for name in names:
        yield Figure(name=f"F_{name}", value=float(np.mean(values[name])), unit="mean F with the bound")
    for name in _BASELINES:
        ratio = 100 * broken[name] / max(placed[name], 1)
        yield Figure(name=f"beyond_bound_{name}", value=ratio, unit="% of placements without the bound")


def _large(progress: Progress) -> Iterator[Figure]:
    greedy_times, exact_times = (_Times(), _Times()), (_Times(), _Times())
    wrong, over, gaps = 0, list[float](), list[float]()
    with progress.track(f"states of {_LARGE_NODES} nodes", _LARGE_STATES) as show:
        for seed in range(_LARGE_STATES):
            state = random_state(seed, nodes=_LARGE_NODES, pods=_LARGE_PODS)
            greedy = _answer(state, "net-aware", greedy_times)
            wrong += not _is_valid(state, greedy)
            if seed < _LARGE_SOLVED:
                fresh = random_state(seed, nodes=_LARGE_NODES, pods=_LARGE_PODS)
                optimal = _answer(fresh, "net-optimal", exact_times)
                wrong += not _is_valid(state, optimal)
                if optimal.objective and optimal.objective.value and greedy.objective is not None:
                    assert isinstance(optimal, OptimalPlacement)
                    gaps.append(100 * optimal.gap_ratio)
                    over.append(100 * (greedy.objective.value / optimal.objective.value - 1))
            show(seed + 1)
    yield Figure(name="large_wrong_answers", value=wrong, unit="states", at_most=0)
    yield from _time_figures("large_greedy", greedy_times[0], _MOST_LARGE_GREEDY_MS)
    yield Figure(
        name="large_optimal_longest", value=max(exact_times[0].wall), unit="ms", at_most=_MOST_LARGE_EXACT_MS
    )
    yield Figure(name="large_optimal_gap_mean", value=float(np.mean(gaps)), unit="% of F")
    yield Figure(name="large_optimal_gap_highest", value=max(gaps), unit="% of F")
    yield Figure(name="large_greedy_over_best_mean", value=float(np.mean(over)), unit="% of F")
