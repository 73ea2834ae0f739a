"""Replay compared with CloudSim on the same days and with a live collector, and its duration on one core."""

import argparse
import asyncio
import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from secrets import randbelow
from time import process_time

from bench.common.progress import Progress
from bench.common.requirements import Need, dataset, is_left_out
from bench.common.results import Figure, Result
from bench.replay.defaults import bitbrains, borg, compare_with_lr, planetlab, same_work, shuffled
from bench.replay.equivalence import compare_collectors
from replay.setup.scenario import Scenario, read_scenario
from replay.setup.workload import Workload
from replay.simulation.compare import Show, compare
from replay.simulation.results import PolicyResult
from replay.sources import generate, read_trace
from wattpack.datasets.catalogue import add_data_option, require, search_path
from wattpack.datasets.traces import locate_in

_DAYS = ("20110303", "20110309", "20110325", "20110411", "20110420")
_REFERENCE = "planetlab-cloudsim-reference"
_WEEK = "bitbrains-rnd-2013-08-week"
_WEEK_TIME = "the time of the Bitbrains week"
_SAME = {"first-fit": "dvfs", "thr-mmt": "thr", "lr-mmt": "lr"}
"""Our policies, and CloudSim's overload policies that they correspond to."""
_MOVING = ("thr-mmt", "lr-mmt")
_MOST_OFF_PERCENT = 10.0
_MOST_WEEK_SECONDS, _MOST_FLEET_SECONDS, _MOST_DAY_SECONDS = 90.0, 900.0, 90.0
_SAME_HOURS = 24.0
_WEEK_DAYS = 7.0
_FLEET, _BORG = Path("scenarios/fleet.toml"), Path("scenarios/genpack-borg.toml")
_PARTS = ("live", "planetlab", "bitbrains", "borg", "fleet")
_MOST_SEED = 1 << 31


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_data_option(parser)
    parser.add_argument("--days", nargs="+", default=list(_DAYS), help="PlanetLab days to replay")
    parser.add_argument("--policy", default="least-watts", help="policy whose duration is measured")
    parser.add_argument(
        "--only", nargs="+", choices=_PARTS, default=list(_PARTS), help="run only these parts"
    )
    parser.add_argument(
        "--fleet-days",
        type=float,
        default=_WEEK_DAYS,
        help="simulated days of the fleet; its duration is scaled to a week",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=randbelow(_MOST_SEED),
        help="seed of the shuffled copies; random unless given",
    )


def needs(options: argparse.Namespace) -> list[Need]:
    """The PlanetLab days with CloudSim's figures, and the Bitbrains week."""
    days = [_day(day) for day in options.days] if "planetlab" in options.only else []
    return [
        *(dataset(name, options.data, _comparison_name(name)) for name in days),
        *(dataset(_REFERENCE, options.data, _comparison_name(name)) for name in days),
        *([dataset(_WEEK, options.data, _WEEK_TIME)] if "bitbrains" in options.only else []),
    ]


def run(options: argparse.Namespace, progress: Progress) -> Result:
    """Run each part."""
    parts: dict[str, Callable[[argparse.Namespace, Progress], Iterator[Figure]]] = {
        "live": _same_as_live,
        "planetlab": _planetlab,
        "bitbrains": _bitbrains,
        "borg": _borg,
        "fleet": _fleet,
    }
    figures = [figure for name in _PARTS if name in options.only for figure in parts[name](options, progress)]
    names = ("days", "policy", "fleet_days", "seed")
    settings = {name: getattr(options, name) for name in names}
    return Result(tuple(figures), settings=settings)


def _planetlab(options: argparse.Namespace, progress: Progress) -> Iterator[Figure]:
    """Compare days with CloudSim, and measure the duration of three policies on each."""
    folders = search_path(options.data)
    hosts = read_scenario(Path("scenarios/planetlab-hosts.toml"))
    days = [day for day in options.days if not is_left_out(options, _comparison_name(_day(day)))]
    reference = _reference(require(_REFERENCE, folders).path) if days else {}
    for day in days:
        trace = read_trace(locate_in(folders)(_day(day)), hosts.machines)
        began = process_time()
        results = compare([*_MOVING, options.policy], hosts, trace, None, _track(progress)).policies
        seconds = process_time() - began
        yield Figure(name=f"planetlab_{day}_cpu", value=seconds, unit="s", at_most=_MOST_DAY_SECONDS)
        yield from compare_with_lr(f"planetlab_{day}", results[options.policy], results["lr-mmt"])
        yield from same_work(f"planetlab_{day}", results["lr-mmt"], hosts, trace, _track(progress))
        del results[options.policy]
        results |= compare(["first-fit"], hosts, trace, None, _track(progress)).policies
        for name, result in results.items():
            yield from _compare_with_cloudsim(day, name, result, reference[day, _SAME[name]])
    if days:
        trace = shuffled(read_trace(locate_in(folders)(_day(days[0])), hosts.machines), options.seed)
        yield from planetlab("planetlab_shuffled", hosts, trace, None, _track(progress))


def _bitbrains(options: argparse.Namespace, progress: Progress) -> Iterator[Figure]:
    if is_left_out(options, _WEEK_TIME):
        return
    scenario = read_scenario(Path("scenarios/bitbrains-hosts.toml"))
    week = read_trace(locate_in(search_path(options.data))(_WEEK), scenario.machines)
    seconds = _cpu_seconds(scenario, week, options.policy, progress)
    yield Figure(name="bitbrains_week_cpu", value=seconds, unit="s", at_most=_MOST_WEEK_SECONDS)
    yield from bitbrains("bitbrains_week", scenario, week, _track(progress))
    yield from bitbrains("bitbrains_shuffled", scenario, shuffled(week, options.seed), _track(progress))


def _borg(options: argparse.Namespace, progress: Progress) -> Iterator[Figure]:
    scenario = read_scenario(_BORG)
    assert scenario.trace is not None
    assert scenario.trace.generator is not None
    for key, seed in (("borg", scenario.simulation.seed), ("borg_shuffled", options.seed)):
        workload = generate(scenario.trace.generator, scenario.trace.settings, seed)
        yield from borg(key, scenario, workload, _track(progress))


def _fleet(options: argparse.Namespace, progress: Progress) -> Iterator[Figure]:
    scenario = read_scenario(_FLEET)
    assert scenario.trace is not None
    settings = {**scenario.trace.settings, "days": options.fleet_days}
    fleet = generate("fleet", settings, scenario.simulation.seed)
    seconds = _cpu_seconds(scenario, fleet, options.policy, progress) * _WEEK_DAYS / options.fleet_days
    yield Figure(name="fleet_week_cpu", value=seconds, unit="s", at_most=_MOST_FLEET_SECONDS)


def _same_as_live(_: argparse.Namespace, progress: Progress) -> Iterator[Figure]:
    """Send a day of reports to a collector over HTTP and to replay's, and count differences."""
    with progress.track("live and replayed", _SAME_HOURS * 3600, " s") as update:
        compared = asyncio.run(compare_collectors(hours=_SAME_HOURS, progress=update))
    yield Figure(name="same_reports", value=compared.reports, unit="")
    yield Figure(name="same_plans", value=compared.plans, unit="")
    yield Figure(name="same_actions", value=compared.actions, unit="", at_least=1)
    yield Figure(name="different_plans", value=len(compared.different_plans), unit="", at_most=0)
    yield Figure(name="different_columns", value=len(compared.different_columns), unit="", at_most=0)


def _day(day: str) -> str:
    return f"planetlab-{day}"


def _comparison_name(name: str) -> str:
    return f"{name} compared with CloudSim"


def _reference(path: Path) -> dict[tuple[str, str], Mapping[str, str]]:
    with path.open(encoding="ascii", newline="") as lines:
        return {(row["day"], row["overload_policy"]): row for row in csv.DictReader(lines)}


def _compare_with_cloudsim(
    day: str, name: str, result: PolicyResult, theirs: Mapping[str, str]
) -> Iterator[Figure]:
    key = f"{name.replace('-', '_')}_{day}"
    energy = abs(result.energy_kwh / float(theirs["energy_kwh"]) - 1) * 100
    yield Figure(name=f"{key}_energy_off", value=energy, unit="%", at_most=_MOST_OFF_PERCENT)
    if moves := int(theirs["migrations"]):
        off = abs(result.migrations / moves - 1) * 100
        yield Figure(name=f"{key}_moves_off", value=off, unit="%", at_most=_MOST_OFF_PERCENT)


def _cpu_seconds(scenario: Scenario, workload: Workload, policy: str, progress: Progress) -> float:
    began = process_time()
    compare([policy], scenario, workload, None, _track(progress))
    return process_time() - began


def _track(progress: Progress) -> Show:
    return lambda name, total: progress.track(name, total, " s")
