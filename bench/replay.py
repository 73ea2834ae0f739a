"""Replay beside CloudSim on the same days and beside a live collector, and how long it takes on one core."""

import argparse
import asyncio
import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import process_time

from bench.frame import Figure, Progress, Result
from bench.replay_sameness import compare_ways
from bench.requirements import Need, dataset, is_left_out
from replay.setup.scenario import Scenario, read_scenario
from replay.setup.workload import Workload
from replay.simulation.compare import Show, compare
from replay.simulation.results import PolicyResult
from replay.sources import generate, read_trace
from wattpack.datasets.options import add_data_option
from wattpack.datasets.search import require, search_path
from wattpack.datasets.traces import locate_in

_DAYS = ("20110303", "20110309", "20110325", "20110411", "20110420")
_REFERENCE = "planetlab-cloudsim-reference"
_WEEK = "bitbrains-rnd-2013-08-week"
_WEEK_TIME = "the time of the Bitbrains week"
_SAME = {"first-fit": "dvfs", "thr-mmt": "thr", "lr-mmt": "lr"}
"""Our name for what CloudSim ran, by its overload policy there."""
_MOVING = ("thr-mmt", "lr-mmt")
_MOST_OFF_PERCENT = 10.0
_MOST_WEEK_SECONDS, _MOST_FLEET_SECONDS, _MOST_DAY_SECONDS = 90.0, 900.0, 90.0
_SAME_HOURS = 24.0
_FLEET = Path("scenarios/fleet.toml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the traces are, and how much of them."""
    add_data_option(parser)
    parser.add_argument("--days", nargs="+", default=list(_DAYS), help="which PlanetLab days")
    parser.add_argument("--policy", default="least-watts", help="whose time is taken on the weeks")


def needs(options: argparse.Namespace) -> list[Need]:
    """The days with CloudSim's own figures, and the week."""
    days = [_day(day) for day in options.days]
    return [
        *(dataset(name, options.data, _beside(name)) for name in days),
        *(dataset(_REFERENCE, options.data, _beside(name)) for name in days),
        dataset(_WEEK, options.data, _WEEK_TIME),
    ]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Replay days and weeks."""
    figures: list[Figure] = list(_same_as_live(progress))
    folders = search_path(options.data)
    locate = locate_in(folders)
    hosts = read_scenario(Path("scenarios/planetlab-hosts.toml"))
    days = [day for day in options.days if not is_left_out(options, _beside(_day(day)))]
    reference = _reference(require(_REFERENCE, folders).path) if days else {}
    for day in days:
        trace = read_trace(locate(_day(day)), hosts.machines)
        began = process_time()
        results = compare([*_MOVING, options.policy], hosts, trace, None, _shown(progress)).results.policies
        seconds = process_time() - began
        figures.append(
            Figure(name=f"planetlab_{day}_cpu", value=seconds, unit="s", at_most=_MOST_DAY_SECONDS)
        )
        del results[options.policy]
        results |= compare(["first-fit"], hosts, trace, None, _shown(progress)).results.policies
        for name, result in results.items():
            figures.extend(_held_against(day, name, result, reference[day, _SAME[name]]))
    if not is_left_out(options, _WEEK_TIME):
        scenario = read_scenario(Path("scenarios/bitbrains-hosts.toml"))
        week = read_trace(locate(_WEEK), scenario.machines)
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


def _same_as_live(progress: Progress) -> Iterator[Figure]:
    """A day of reports to a collector over HTTP, and to replay's: plans and columns that differ."""
    with progress.track("live beside replay", _SAME_HOURS * 3600, " s") as update:
        found = asyncio.run(compare_ways(hours=_SAME_HOURS, progress=update))
    yield Figure(name="same_reports", value=found.reports, unit="")
    yield Figure(name="same_plans", value=found.plans, unit="")
    yield Figure(name="same_actions", value=found.actions, unit="", at_least=1)
    yield Figure(name="different_plans", value=len(found.different_plans), unit="", at_most=0)
    yield Figure(name="different_columns", value=len(found.different_columns), unit="", at_most=0)


def _day(day: str) -> str:
    return f"planetlab-{day}"


def _beside(name: str) -> str:
    return f"{name} beside CloudSim"


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
