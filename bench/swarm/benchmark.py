"""What a collector does to a real Swarm: bottlenecks healed, and what goes wrong borne."""

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
from bench.swarm.hog import REPEATED, hog, repeated, unlimited
from bench.swarm.memory import memory, memory_plain
from bench.swarm.stability import ten_minutes
from bench.swarm.web import web
from wire.errors import UserError

Run = Callable[[Cluster, Collector], list[Figure]]
_DRY: Mapping[str, Mapping[str, Any]] = {"driver": {"name": "none"}}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing that is shown, on a Swarm of its own."""

    run: Run
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    agents: Mapping[str, object] = field(default_factory=dict)


_SIMULATED: Mapping[str, Callable[[], list[Figure]]] = {"ten-minutes": ten_minutes}
"""Without a Swarm, on a simulated clock: it covers more time than a test can wait."""


def _scenarios(watch_seconds: float) -> dict[str, Scenario]:
    return {
        "hog": Scenario(partial(hog, watch_seconds=watch_seconds)),
        "hog-repeated": Scenario(repeated, REPEATED),
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
    parser.add_argument("--watch-seconds", type=float, default=120.0, help="how long no move may be undone")
    parser.add_argument("--only", nargs="*", metavar="NAME", default=[], help="only these scenarios")


def needs(options: argparse.Namespace) -> list[Need]:
    """A Swarm of its own, unless all that is chosen is simulated."""
    is_simulated = bool(options.only) and set(options.only) <= set(_SIMULATED)
    return [] if is_simulated else [lab_part("swarm")]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Every scenario, each on a Swarm of its own, and what is simulated."""
    scenarios = _scenarios(options.watch_seconds)
    runs: dict[str, Callable[[], list[Figure]]] = {
        **{name: partial(play, scenario) for name, scenario in scenarios.items()},
        **_SIMULATED,
    }
    for name in options.only:
        if name not in runs:
            raise UserError(f"--only: there is no {name!r}: choose of {', '.join(runs)}")
    figures: list[Figure] = []
    for name in options.only or runs:
        progress.say(f"swarm: {name}")
        figures += runs[name]()
    return Result(tuple(figures), {"watch_seconds": options.watch_seconds})


def play(scenario: Scenario) -> list[Figure]:
    """One scenario on a Swarm of its own, with a collector and an agent per node."""
    with cluster() as nodes:
        try:
            collector = nodes.collector(scenario.settings)
            nodes.watch(collector, scenario.agents)
            return scenario.run(nodes, collector)
        except Exception:
            print(nodes.logs())
            raise
