"""The table of trace formats and workload generators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from replay.generators import papers, services
from replay.generators.arrivals import Arrivals, ArrivalsSettings, generate_arrivals
from replay.readers import alibaba, bitbrains, google2011, planetlab, queues
from replay.readers.samples import Period
from replay.setup.scenario import Machines, Scenario, convert_table
from replay.setup.workload import Workload
from wire.errors import UserError

FORMATS: Mapping[str, Callable[[Path, Sequence[Machines], Period | None], Workload]] = {
    "planetlab": planetlab.read,
    "bitbrains": bitbrains.read,
    "google": google2011.read,
    "alibaba": alibaba.read,
    "requests": queues.read_requests,
    "submissions": queues.read_submissions,
}
HOSTS_FORMAT, STARTUP_FORMAT = "hosts", "startup"
"""Formats of data sets that complete a scenario: its hosts, and measured start-up times."""

GENERATORS: Mapping[str, tuple[type[msgspec.Struct], Callable[[Any, int], Workload]]] = {
    "borg": (papers.BorgSettings, papers.generate_borg),
    "cloud-hour": (papers.CloudHourSettings, papers.generate_cloud_hour),
    "deployments": (services.DeploymentsSettings, services.generate_deployments),
    "elastic": (services.ElasticSettings, services.generate_elastic),
    "fleet": (services.FleetSettings, services.generate_fleet),
    "images": (papers.ImagesSettings, papers.generate_images),
    "listed": (services.ListedSettings, services.generate_listed),
}
"""Per name: its settings, and the function that creates a workload from them and a seed."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """The path and format of a trace."""

    path: Path
    """A file, or a folder with a file per machine."""
    format: str
    period: Period | None = None
    """The part to read; None is all of it."""


Locate = Callable[[str], TraceFile]
"""Finds a data set by name on this machine; raises `UserError` if it is missing."""


def read_trace(trace: TraceFile, machines: Sequence[Machines]) -> Workload:
    """Read a workload from a file or a folder."""
    if trace.format not in FORMATS:
        raise UserError(f"unknown trace format {trace.format!r}: use one of {', '.join(FORMATS)}")
    return FORMATS[trace.format](trace.path, machines, trace.period)


def generate(name: str, settings: Mapping[str, Any], seed: int) -> Workload:
    """Generate a workload: the same for the same settings and seed."""
    if name not in GENERATORS:
        raise UserError(f"unknown generator {name!r}: use one of {', '.join(GENERATORS)}")
    kind, make = GENERATORS[name]
    return make(convert_table(settings, kind, f"invalid settings of generator {name}"), seed)


def with_data(scenario: Scenario, locate: Locate) -> Scenario:
    """Add the hosts and start-up times of the data sets that a scenario names."""

    def find(name: str, format_name: str) -> Path:
        found = locate(name)
        if found.format != format_name:
            raise UserError(f"the data set {name} has no {format_name}: 'wattpack data' lists all sets")
        return found.path

    startup = scenario.startup
    for key in ("same_host", "other_host"):
        if (name := getattr(startup, f"{key}_dataset")) is not None:
            seconds = queues.read_startup_seconds(find(name, STARTUP_FORMAT))
            startup = msgspec.structs.replace(startup, **{f"{key}_seconds": seconds})
    hosts = scenario.hosts
    if scenario.hosts_dataset is not None:
        hosts = queues.read_hosts(find(scenario.hosts_dataset, HOSTS_FORMAT))
        if scenario.hosts_ratio < 1:
            random = np.random.default_rng([scenario.simulation.seed, len("hosts")])
            kept = random.choice(len(hosts), round(scenario.hosts_ratio * len(hosts)), replace=False)
            hosts = tuple(hosts[place] for place in sorted(kept.tolist()))
    return msgspec.structs.replace(scenario, hosts=hosts, startup=startup)


def arrivals_of(scenario: Scenario, base: Path) -> Arrivals:
    """The arrivals of the elastic service of a scenario; paths are relative to the scenario."""
    service = scenario.elastic
    if service is None:
        raise UserError("the scenario has no [elastic]: add one")
    if service.arrivals_file is not None:
        return queues.read_arrivals(base / service.arrivals_file)
    settings = convert_table(service.arrivals, ArrivalsSettings, "invalid [elastic.arrivals]")
    return generate_arrivals(settings, scenario.simulation.seed)


def workloads(scenario: Scenario, base: Path, locate: Locate) -> tuple[Workload, Workload | None]:
    """The workload to run, and an earlier one to learn from; paths are relative to the scenario."""
    trace = scenario.trace
    if trace is None:
        raise UserError("the scenario has no [trace]: add one, or give --trace")
    if trace.generator is not None:
        return generate(trace.generator, trace.settings, scenario.simulation.seed), None

    def read(name: str) -> Workload:
        found = locate(name) if trace.dataset is not None else TraceFile(base / name, trace.format or "")
        return read_trace(found, scenario.machines)

    earlier = None if trace.learn is None else read(trace.learn)
    return read(trace.dataset or trace.file or ""), earlier
