"""The hosts of a scenario, one row each, as in the simulation and in snapshots."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np

from collector.common.arrays import Flags, Floats
from collector.common.labels import GENERATION_LABEL
from collector.config import PlacementConfig
from collector.snapshot.power_curves import PowerCurves
from replay.setup.elastic import MILLI
from replay.setup.scenario import MIPS_PER_CORE, Host, Network
from wire.errors import UserError
from wire.messages import PowerCurve, PowerSource

MEGABYTE = 1e6
MEBIBYTE = float(1 << 20)
_PLAIN = Network()
_DOMAIN_LABEL = PlacementConfig().domain_label


@dataclass(frozen=True, eq=False, kw_only=True)
class Hosts:
    """The hosts of a scenario in columns, in the order of their names."""

    names: tuple[str, ...]
    capacity: Floats
    """NaN for a disk or network without a limit."""
    system: Floats
    """Usage of the host itself."""
    curves: tuple[PowerCurve, ...]
    power: PowerCurves
    """The power curves in columns."""
    boot_seconds: Floats
    boot_joules: Floats
    on: Flags
    labels: tuple[Mapping[str, str], ...]
    """The labels of the scenario, and labels for generation and domain."""
    round_trip_seconds: Floats | None = None
    """Round-trip times from each host to each; None if the scenario has no regions."""

    @property
    def size(self) -> int:
        return len(self.names)


def build_hosts(kinds: Sequence[Host], *, interleave: bool = False, network: Network = _PLAIN) -> Hosts:
    """Create every host of every kind. Names sort in the order of the scenario."""
    named = sorted(_named(kinds, interleave=interleave), key=lambda each: each[0])
    each_kind = [kind for _, kind in named]
    curves = tuple(_curve(kind) for kind in each_kind)
    return Hosts(
        names=tuple(name for name, _ in named),
        capacity=np.array([_capacity(kind) for kind in each_kind]),
        system=np.array(
            [[kind.system_cores, kind.system_memory_mb * MEBIBYTE, 0.0, 0.0] for kind in each_kind]
        ),
        curves=curves,
        power=PowerCurves.of(curves),
        boot_seconds=np.array([kind.boot_seconds for kind in each_kind]),
        boot_joules=np.array([kind.boot_joules for kind in each_kind]),
        on=np.array([kind.on for kind in each_kind], dtype=np.bool_),
        labels=tuple(_labels(kind) for kind in each_kind),
        round_trip_seconds=_round_trips(each_kind, network),
    )


def _round_trips(kinds: Sequence[Host], network: Network) -> Floats | None:
    regions = [kind.region for kind in kinds if kind.region is not None]
    if not regions:
        return None
    if len(regions) != len(kinds):
        without = next(kind.name for kind in kinds if kind.region is None)
        raise UserError(f"host {without!r} has no region, and others have one: set it for all or for none")
    names = sorted(set(regions))
    times = {one: {other: network.between(one, other) for other in names} for one in names}
    seconds = np.array([[times[one][other] / MILLI for other in regions] for one in regions])
    seconds[np.diag_indices(len(regions))] = 0.0
    return seconds


def _named(kinds: Sequence[Host], *, interleave: bool) -> Iterator[tuple[str, Host]]:
    if interleave:
        turns = zip_longest(*([kind] * kind.count for kind in kinds))
        dealt = [kind for kind in chain.from_iterable(turns) if kind is not None]
        width = len(str(len(dealt)))
        yield from ((f"{number:0{width}}-{kind.name}", kind) for number, kind in enumerate(dealt, start=1))
        return
    for kind in kinds:
        width = len(str(kind.count))
        for number in range(1, kind.count + 1):
            yield (kind.name if kind.count == 1 else f"{kind.name}-{number:0{width}}"), kind


def _labels(kind: Host) -> dict[str, str]:
    labels = {**kind.labels, GENERATION_LABEL: kind.generation}
    return labels if kind.domain is None else {**labels, _DOMAIN_LABEL: kind.domain}


def _capacity(kind: Host) -> tuple[float, float, float, float]:
    cores = kind.cpu_cores if kind.cpu_cores is not None else (kind.cpu_mips or 0.0) / MIPS_PER_CORE
    unlimited = float("nan")
    return (
        cores,
        kind.memory_mb * MEBIBYTE,
        unlimited if kind.disk_mb_per_second is None else kind.disk_mb_per_second * MEGABYTE,
        unlimited if kind.network_mb_per_second is None else kind.network_mb_per_second * MEGABYTE,
    )


def _curve(kind: Host) -> PowerCurve:
    idle = kind.watts[0]
    ratios = np.linspace(0.0, 1.0, len(kind.watts))
    return PowerCurve(
        source=PowerSource.MODEL,
        error_ratio=0.0,
        idle_watts=idle,
        cpu_ratios=tuple(float(ratio) for ratio in ratios),
        cpu_watts=tuple(max(0.0, watts - idle) for watts in kind.watts),
        memory_watts=kind.memory_watts,
        disk_watts=kind.disk_watts,
        network_watts=kind.network_watts,
    )
