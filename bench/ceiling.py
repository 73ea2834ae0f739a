"""Upper bound of the requests of Energy4Cloud's hour that can be placed without waiting.

All workers count as one, and every task is cut to the size that its class tolerates: no cluster of five
workers that keeps its promises has more room. A policy that places requests in their order reaches the first
figure; one that knows all requests in advance and rejects large ones places at most the bound.
"""

import argparse
import heapq
from pathlib import Path

import numpy as np

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from collector.common.arrays import Floats
from collector.snapshot.overbooking import RESERVED, TOLERANCES
from replay.setup.hosts import build_hosts
from replay.setup.scenario import read_scenario
from replay.sources import workloads
from wattpack.datasets.catalogue import add_data_option, search_path
from wattpack.datasets.traces import locate_in

_SCENARIO = Path("scenarios/energy4cloud-hour.toml")
_ROUNDING = 1e-9
_EVERY = 10
"""The bound checks every tenth arrival: fewer checks give a looser bound, but still a bound."""
_ROUNDS = 3000
_FIRST_STEP = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument("--scenario", type=Path, default=_SCENARIO, metavar="FILE", help="scenario to bound")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Compute both figures, with and without the cuts that the classes tolerate."""
    scenario = read_scenario(options.scenario)
    workload, _ = workloads(scenario, options.scenario.parent, locate_in(search_path(options.data)))
    whole = build_hosts(scenario.hosts).capacity[:, :RESERVED].sum(axis=0)
    arrivals = workload.arrival_seconds
    ends = arrivals + workload.lifetime_seconds
    requested = workload.requested[:, :RESERVED] / whole
    figures = []
    for name, share in (("as_asked", np.zeros(workload.size)), ("cut", TOLERANCES[workload.task_class])):
        progress.say(f"{name}: in the order of arrival, and the bound")
        need = requested * (1 - share[:, None])
        come = first_come(arrivals, ends, need)
        figures.append(Figure(name=f"{name}_first_come_percent", value=100 * come, unit="%"))
        figures.append(
            Figure(name=f"{name}_at_most_percent", value=100 * bound(arrivals, ends, need), unit="%")
        )
    return Result(tuple(figures), settings={"scenario": str(options.scenario), "requests": workload.size})


def first_come(arrivals: Floats, ends: Floats, need: Floats) -> float:
    """Share of requests that are placed if each one that fits is placed in the order of arrival."""
    used = np.zeros(need.shape[1])
    running: list[tuple[float, int]] = []
    placed = 0
    for row, now in enumerate(arrivals.tolist()):
        while running and running[0][0] <= now:
            used -= need[heapq.heappop(running)[1]]
        if (used + need[row] <= 1 + _ROUNDING).all():
            used += need[row]
            heapq.heappush(running, (float(ends[row]), row))
            placed += 1
    return placed / len(arrivals)


def bound(arrivals: Floats, ends: Floats, need: Floats, every: int = _EVERY) -> float:
    """Upper bound of the share of requests that can be placed, whichever are chosen.

    Each resource has a price at each of some moments. For any prices, no policy places more than the price of
    all resources, plus the value of each request above the price of its resources (dual of a linear
    programme). Prices rise where demand exceeds capacity, and the lowest sum is the bound.
    """
    moments = arrivals[::every, None]
    is_running = ((arrivals <= moments) & (ends > moments)).astype(np.float64)
    demand = np.concatenate([is_running * need[:, resource] for resource in range(need.shape[1])])
    prices, lowest = np.zeros(len(demand)), float(len(arrivals))
    for turn in range(1, _ROUNDS + 1):
        gain = 1 - prices @ demand
        lowest = min(lowest, float(prices.sum() + gain.clip(min=0.0).sum()))
        left = 1 - demand @ (gain > 0)
        length = float(np.linalg.norm(left)) or 1.0
        prices = (prices - _FIRST_STEP / turn**0.5 * left / length).clip(min=0.0)
    return lowest / len(arrivals)
