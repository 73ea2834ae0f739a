"""Replay beside CloudSim on the same PlanetLab days, and how long a week takes on one core."""

import argparse
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import process_time

from bench.frame import Figure, Progress, Result
from replay.setup.scenario import Scenario, read_scenario
from replay.setup.workload import Workload
from replay.simulation.compare import Show, compare
from replay.simulation.results import PolicyResult
from replay.sources import generate, read_trace
from wire.errors import UserError

_DAYS = ("20110303", "20110309", "20110325", "20110411", "20110420")
_REFERENCE = "planetlab-cloudsim-reference.csv"
_WEEK = "bitbrains-rnd-2013-08-week.csv.gz"
_SAME = {"first-fit": "dvfs", "thr-mmt": "thr", "lr-mmt": "lr"}
"""Our name for what CloudSim ran, by its overload policy there."""
_MOST_OFF_PERCENT = 10.0
_MOST_WEEK_SECONDS, _MOST_FLEET_SECONDS = 60.0, 900.0
_FLEET = Path("scenarios/fleet.toml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the traces are, and how much of them."""
    parser.add_argument(
        "--data", type=Path, default=Path("../shared/data/traces"), help="the folder with the traces"
    )
    parser.add_argument("--days", nargs="+", default=list(_DAYS), help="which PlanetLab days")
    parser.add_argument("--policy", default="least-watts", help="whose time is taken on the weeks")


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Replay days and weeks."""
    folder: Path = options.data
    needed = [_REFERENCE, _WEEK, *(f"planetlab-{day}.txt.gz" for day in options.days)]
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise UserError(f"{folder} has no {', '.join(missing)}: give the folder of the traces with --data")
    figures: list[Figure] = []
    hosts = read_scenario(Path("scenarios/planetlab-hosts.toml"))
    reference = _reference(folder / _REFERENCE)
    for day in options.days:
        trace = read_trace(folder / f"planetlab-{day}.txt.gz", "planetlab", hosts.machines)
        results = compare(list(_SAME), hosts, trace, None, _shown(progress)).results.policies
        for name, result in results.items():
            figures.extend(_held_against(day, name, result, reference[day, _SAME[name]]))
    scenario = read_scenario(Path("scenarios/bitbrains-hosts.toml"))
    week = read_trace(folder / _WEEK, "bitbrains", scenario.machines)
    figures.append(
        _timed(
            "bitbrains_week_cpu",
            scenario,
            week,
            options.policy,
            at_most=_MOST_WEEK_SECONDS,
            progress=progress,
        )
    )
    scenario = read_scenario(_FLEET)
    assert scenario.trace is not None
    fleet = generate("fleet", scenario.trace.settings, scenario.simulation.seed)
    figures.append(
        _timed(
            "fleet_week_cpu", scenario, fleet, options.policy, at_most=_MOST_FLEET_SECONDS, progress=progress
        )
    )
    return Result(tuple(figures), settings={"days": options.days, "policy": options.policy})


def _reference(path: Path) -> dict[tuple[str, str], Mapping[str, str]]:
    with path.open(encoding="ascii", newline="") as lines:
        return {(row["day"], row["overload_policy"]): row for row in csv.DictReader(lines)}


def _held_against(day: str, name: str, result: PolicyResult, theirs: Mapping[str, str]) -> Iterator[Figure]:
    key = f"{name.replace('-', '_')}_{day}"
    energy = abs(result.energy_kwh / float(theirs["energy_kwh"]) - 1) * 100
    yield Figure(name=f"{key}_energy_off", value=energy, unit="%", at_most=_MOST_OFF_PERCENT)
    if moves := int(theirs["migrations"]):
        off = abs(result.migrations / moves - 1) * 100
        yield Figure(name=f"{key}_moves_off", value=off, unit="%", at_most=_MOST_OFF_PERCENT)


def _timed(  # noqa: PLR0913 - a run, its name and its bound
    name: str, scenario: Scenario, workload: Workload, policy: str, *, at_most: float, progress: Progress
) -> Figure:
    began = process_time()
    compare([policy], scenario, workload, None, _shown(progress))
    return Figure(name=name, value=process_time() - began, unit="s", at_most=at_most)


def _shown(progress: Progress) -> Show:
    return lambda name, total: progress.track(name, total, " s")
