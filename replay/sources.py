"""Every way to come by a workload: formats of traces that can be read, and generators."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from replay.generators import borg, cloud_hour, fleet, images, listed
from replay.readers import alibaba, bitbrains, google2011, planetlab
from replay.setup.scenario import Machines, Scenario
from replay.setup.workload import Workload
from wire.errors import UserError

FORMATS: Mapping[str, Callable[[Path, Sequence[Machines]], Workload]] = {
    "planetlab": planetlab.read,
    "bitbrains": bitbrains.read,
    "google": google2011.read,
    "alibaba": alibaba.read,
}

GENERATORS: Mapping[str, tuple[type[msgspec.Struct], Callable[[Any, int], Workload]]] = {
    "borg": (borg.BorgSettings, borg.generate),
    "cloud-hour": (cloud_hour.CloudHourSettings, cloud_hour.generate),
    "fleet": (fleet.FleetSettings, fleet.generate),
    "images": (images.ImagesSettings, images.generate),
    "listed": (listed.ListedSettings, listed.generate),
}
"""Per name: what can be chosen, and what makes a workload of that and a seed."""


def read_trace(path: Path, name: str, machines: Sequence[Machines]) -> Workload:
    """A workload from a file."""
    if name not in FORMATS:
        raise UserError(f"there is no trace format {name!r}: there are {', '.join(FORMATS)}")
    return FORMATS[name](path, machines)


def generate(name: str, settings: Mapping[str, Any], seed: int) -> Workload:
    """A workload of a generator's making: the same for the same settings and seed."""
    if name not in GENERATORS:
        raise UserError(f"there is no generator {name!r}: there are {', '.join(GENERATORS)}")
    kind, make = GENERATORS[name]
    try:
        return make(msgspec.convert(settings, kind), seed)
    except msgspec.ValidationError as error:
        raise UserError(f"the settings of generator {name}: {error}") from None


def workloads(scenario: Scenario, base: Path) -> tuple[Workload, Workload | None]:
    """What runs, and what ran earlier; files are named from where the scenario stands."""
    trace = scenario.trace
    if trace is None:
        raise UserError("the scenario has no [trace]: add one, or give --trace")
    if trace.generator is not None:
        return generate(trace.generator, trace.settings, scenario.simulation.seed), None
    assert trace.file is not None
    assert trace.format is not None
    earlier = None
    if trace.learn is not None:
        earlier = read_trace(base / trace.learn, trace.format, scenario.machines)
    return read_trace(base / trace.file, trace.format, scenario.machines), earlier
