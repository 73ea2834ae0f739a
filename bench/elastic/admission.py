"""Admission on recorded workloads: the predicted probability of a shortage, and how often it happened.

It uses the default settings and the collector's own code. Windows are grouped by their prediction.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from bench.common.progress import Progress
from bench.common.results import Figure
from collector.decide.policies.admission.record import ScoredWindow
from replay.setup.hosts import build_hosts
from replay.setup.scenario import read_scenario
from replay.simulation.compare import fit_reservations
from replay.simulation.policy_runs import resolve_runs
from replay.simulation.run import run
from replay.sources import read_trace
from wattpack.datasets.catalogue import search_path
from wattpack.datasets.traces import locate_in

_WEEK, _DAY = "bitbrains-rnd-2013-08-week", "planetlab-20110303"
DATASETS = (_WEEK, _DAY)
_HOSTS = {_DAY: "planetlab-hosts", _WEEK: "bitbrains-hosts"}
_BOUNDS = (0.0, 0.001, 0.01, 0.02, 0.05, 0.1, 1.0)
_MOST_OBSERVED = 1.5
"""Highest accepted ratio of observed to predicted shortages."""


def measure(data: Path | None, progress: Progress) -> Iterator[Figure]:
    """Replay each recording with the default policy."""
    for name, hosts in _HOSTS.items():
        yield from _figures(name.split("-", maxsplit=1)[0], _windows(data, name, hosts, progress), progress)


def _windows(data: Path | None, name: str, hosts_name: str, progress: Progress) -> list[ScoredWindow]:
    scenario = read_scenario(Path(f"scenarios/{hosts_name}.toml"))
    simulation = msgspec.structs.replace(scenario.simulation, admission=True)
    (policy_run,) = resolve_runs(["least-watts"], msgspec.structs.replace(scenario, simulation=simulation))
    hosts = build_hosts(scenario.hosts, interleave=scenario.interleave, network=scenario.network)
    trace = read_trace(locate_in(search_path(data))(name), scenario.machines)
    with progress.track(name, trace.duration_seconds, " s") as update:
        return run(policy_run, hosts, fit_reservations(trace, hosts), None, update).windows


def _figures(key: str, windows: list[ScoredWindow], progress: Progress) -> Iterator[Figure]:
    predicted, corrected, short = (np.array(each, dtype=np.float64) for each in zip(*windows, strict=True))
    for low, high in pairwise(_BOUNDS):
        some = (corrected >= low) & (corrected <= high if high >= 1 else corrected < high)
        if some.any():
            progress.say(
                f"{key}: {some.sum()} windows with {low:g} to {high:g}:"
                f" predicted {corrected[some].mean():.4f}, observed {short[some].mean():.4f}"
            )
    yield Figure(name=f"{key}_windows", value=short.size, unit="", at_least=1)
    yield Figure(name=f"{key}_predicted_ratio", value=predicted.mean(), unit="")
    yield Figure(name=f"{key}_corrected_ratio", value=corrected.mean(), unit="")
    yield Figure(
        name=f"{key}_observed_ratio", value=short.mean(), unit="", at_most=_MOST_OBSERVED * corrected.mean()
    )
