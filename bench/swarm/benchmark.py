"""A collector that acts on a real Swarm: bottlenecks, consolidation and faults."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.common.progress import Progress
from bench.common.requirements import Need, lab_part
from bench.common.results import Figure, Result
from bench.swarm import consolidation, cutting, faults
from bench.swarm.cluster import Cluster, Collector, cluster
from bench.swarm.hog import COMPRESSED, REPEATED, hog, judged, pinned, repeated, unlimited
from bench.swarm.memory import memory, memory_plain
from bench.swarm.stability import ten_minutes
from bench.swarm.web import web
from tests.lab.engines.swarm import Swarm
from wire.errors import UserError

Run = Callable[[Cluster, Collector], list[Figure]]
_DRY: Mapping[str, Mapping[str, Any]] = {"driver": {"name": "none"}}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario, on a new Swarm."""

    run: Run
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    agents: Mapping[str, object] = field(default_factory=dict)


_SIMULATED: Mapping[str, Callable[[], list[Figure]]] = {"ten-minutes": ten_minutes}
"""Scenarios without a Swarm, on a simulated clock, because they cover more time than a test can wait."""


def _scenarios(watch_seconds: float) -> dict[str, Scenario]:
    return {
        "hog": Scenario(partial(hog, watch_seconds=watch_seconds)),
        "hog-repeated": Scenario(repeated, REPEATED),
        "judged": Scenario(judged, COMPRESSED),
        "pinned": Scenario(partial(pinned, watch_seconds=watch_seconds)),
        "unlimited": Scenario(partial(unlimited, watch_seconds=watch_seconds)),
        "memory": Scenario(memory),
        "memory-plain": Scenario(memory_plain, _DRY),
        "web": Scenario(web),
        "consolidation": Scenario(consolidation.consolidation, _DRY, consolidation.AGENTS),
        "cut": Scenario(cutting.cut, cutting.SETTINGS),
        "dead-target": Scenario(faults.dead_target),
        "cut-off": Scenario(faults.cut_off),
        "away": Scenario(faults.away),
        "killed": Scenario(faults.killed),
        "two": Scenario(faults.two),
        "dry": Scenario(faults.dry, _DRY),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--watch-seconds", type=float, default=120.0, help="time after a move in which nothing may move again"
    )
    parser.add_argument("--only", nargs="*", metavar="NAME", default=[], help="run only these scenarios")


def needs(options: argparse.Namespace) -> list[Need]:
    """A Swarm, unless all chosen scenarios are simulated."""
    is_simulated = bool(options.only) and set(options.only) <= set(_SIMULATED)
    return [] if is_simulated else [lab_part("swarm")]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Run every scenario, each on a new Swarm, and the simulated ones."""
    scenarios = _scenarios(options.watch_seconds)
    runs: dict[str, Callable[[], list[Figure]]] = {
        **{name: partial(run_scenario, scenario) for name, scenario in scenarios.items()},
        **_SIMULATED,
    }
    for name in options.only:
        if name not in runs:
            raise UserError(f"--only: there is no scenario {name!r}: choose from {', '.join(runs)}")
    figures: list[Figure] = []
    for name in options.only or runs:
        progress.say(f"swarm: {name}")
        figures += runs[name]()
    return Result(tuple(figures), {"watch_seconds": options.watch_seconds})


def run_scenario(scenario: Scenario, nodes: Swarm | None = None) -> list[Figure]:
    """Run one scenario on a new Swarm or on given nodes, with a collector and an agent per node."""
    with cluster(nodes=nodes) as watched:
        try:
            collector = watched.collector(scenario.settings)
            watched.watch(collector, scenario.agents)
            return scenario.run(watched, collector)
        except Exception:
            print(watched.logs())
            raise
