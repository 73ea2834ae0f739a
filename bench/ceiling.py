"""What could be placed at best of Energy4Cloud's hour, if every request is answered at once.

All workers are taken as one, and every task as cut to what its class tolerates: no cluster of five that keeps
its promises has more room. A policy that places what fits in order places this many; one that
knows all requests in advance and refuses large ones in favour of small ones places at most the bound.
"""

import argparse
import heapq
from pathlib import Path

import numpy as np

from bench.common.progress import Progress
from bench.common.results import Figure, Result
from collector.policies.overbooking import RESERVED, TOLERANCES
from collector.snapshot.power_curves import Floats
from replay.setup.hosts import build_hosts
from replay.setup.scenario import read_scenario
from replay.sources import workloads
from wattpack.datasets.options import add_data_option
from wattpack.datasets.search import search_path
from wattpack.datasets.traces import locate_in

_SCENARIO = Path("scenarios/energy4cloud-hour.toml")
_ROUNDING = 1e-9
_EVERY = 10
"""The bound looks at every tenth arrival: to look less often bounds less tightly, and is still a bound."""
_ROUNDS = 3000
_FIRST_STEP = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument(
        "--scenario", type=Path, default=_SCENARIO, metavar="FILE", help="instead of the hour"
    )


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Both, with and without what the classes tolerate."""
    scenario = read_scenario(options.scenario)
    workload, _ = workloads(scenario, options.scenario.parent, locate_in(search_path(options.data)))
    whole = build_hosts(scenario.hosts).capacity[:, :RESERVED].sum(axis=0)
    arrivals = workload.arrival_seconds
    ends = arrivals + workload.lifetime_seconds
    asked = workload.requested[:, :RESERVED] / whole
    figures = []
    for name, share in (("as_asked", np.zeros(workload.size)), ("cut", TOLERANCES[workload.task_class])):
        progress.say(f"{name}: as they come, and at most")
        need = asked * (1 - share[:, None])
        come = first_come(arrivals, ends, need)
        figures.append(Figure(name=f"{name}_first_come_percent", value=100 * come, unit="%"))
        figures.append(
            Figure(name=f"{name}_at_most_percent", value=100 * bound(arrivals, ends, need), unit="%")
        )
    return Result(tuple(figures), settings={"scenario": str(options.scenario), "requests": workload.size})


def first_come(arrivals: Floats, ends: Floats, need: Floats) -> float:
    """Of requests in the order of their arrival: how many are placed, if each is that fits into 1."""
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
    """How many of them can be placed at most, whichever are chosen.

    A price is put on all that there is at each of some moments. Whatever the prices are, no policy places
    more than the value of all room, plus the value of each request beyond the price of its room (dual of a
    linear programme). Prices go where more is wanted than there is, and the lowest sum that was seen counts.
    """
    moments = arrivals[::every, None]
    there = ((arrivals <= moments) & (ends > moments)).astype(np.float64)
    wanted = np.concatenate([there * need[:, resource] for resource in range(need.shape[1])])
    prices, lowest = np.zeros(len(wanted)), float(len(arrivals))
    for turn in range(1, _ROUNDS + 1):
        gain = 1 - prices @ wanted
        lowest = min(lowest, float(prices.sum() + gain.clip(min=0.0).sum()))
        left = 1 - wanted @ (gain > 0)
        length = float(np.linalg.norm(left)) or 1.0
        prices = (prices - _FIRST_STEP / turn**0.5 * left / length).clip(min=0.0)
    return lowest / len(arrivals)
