"""RAPL: the energy counters of CPU packages and memory, read from the kernel's powercap tree.

Zones overlap, so only some are added: each package (or die) and its dram, which is outside the package. core
and uncore are inside it. psys contains packages and more, but what more depends on the board, and on many it
is wrong. These are listed as parts but not added. The zones of intel-rapl-mmio are the same packages again:
they are ignored.

If `power.rapl_reader` selects it, the counters are read through pyRAPL. It uses fixed paths, does not handle
counter wraps and fails on CPUs with several dies, so it is not the default, and the power is computed here in
both cases.
"""

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from powermodels.common.interface import Scope
from powermodels.meters.sensors import Sensor, SensorMeter, parse_micro, read_micro
from wire.messages import Gap, PowerSource

# On a server with both meters (Kepler model database, nx12) wall power minus RAPL is 105.7 W on average with
# a deviation of 13.9 W, a tenth of the power that RAPL reports.
_ERROR_RATIO = 0.1

PYRAPL = "pyRAPL"
"""What is missing, in a gap."""

Energies = Callable[[], Sequence[float]]
"""Values of pyRAPL: package and dram of socket 0, then of socket 1, in microjoules; -1 for none."""


def read_domains(sys: Path) -> tuple[Sensor, ...]:
    """Read all zones below a root, each package followed by its parts."""
    powercap = sys / "class/powercap"
    zones = _read_zones(powercap, "intel-rapl") or _read_zones(powercap, "intel-rapl-mmio")
    tops = {name: zone for zone, name in zones.items() if zone.name.count(":") == 1}
    domains: list[Sensor] = []
    for name, zone in sorted(tops.items()):
        is_package = name.startswith("package-")
        domains.append(_read_domain(name, zone, counted=is_package))
        domains.extend(
            _read_domain(f"{name} {inner_name}", inner, counted=is_package and inner_name == "dram")
            for inner, inner_name in zones.items()
            if inner.name.startswith(f"{zone.name}:")
        )
    return tuple(domains)


def find_rapl(sys: Path, hypervisor: str | None) -> SensorMeter | Gap:
    """Find the RAPL meter of the host, or the reason why there is none."""
    domains = read_domains(sys)
    if any(domain.counted for domain in domains):
        return _meter(sys, domains, read_micro)
    if hypervisor is not None:
        return Gap("RAPL", f"this is a virtual machine ({hypervisor}), which hides the CPU's energy counters")
    return Gap(
        "RAPL",
        f"there is no RAPL package under {sys / 'class/powercap'}: this CPU has no energy counters, "
        "or its driver is not loaded: `sudo modprobe intel_rapl_msr`",
    )


def find_pyrapl(sys: Path, hypervisor: str | None) -> SensorMeter | Gap:  # noqa: ARG001 - the table's form
    """Find the RAPL meter of the host through pyRAPL, or the reason why there is none."""
    try:
        library: Any = importlib.import_module("pyRAPL")
    except ImportError:
        return Gap(PYRAPL, "it is not installed: pip install 'wattpack[pyrapl]'")
    try:
        sensor = library.Sensor()
    except (OSError, ValueError, library.PyRAPLException) as error:
        return Gap(PYRAPL, f"it cannot read this machine's counters: {error!r}")
    return meter_through(sensor.energy, sys)


def meter_through(energies: Energies, sys: Path) -> SensorMeter:
    """Create a meter of the packages and memories below a root that reads through pyRAPL."""
    domains = tuple(domain for domain in read_domains(sys) if domain.counted)
    places: dict[str, int] = {}
    for domain in domains:
        package, _, inner = domain.name.partition(" ")
        places[domain.name] = 2 * int(package.removeprefix("package-")) + (inner == "dram")

    def read(domain: Sensor) -> float:
        energy_uj = energies()[places[domain.name]]
        if energy_uj < 0:
            raise ValueError(f"pyRAPL has no {domain.name}")
        return energy_uj

    return _meter(sys, domains, read)


def _meter(sys: Path, domains: tuple[Sensor, ...], read: Callable[[Sensor], float]) -> SensorMeter:
    has_memory = any(domain.counted and domain.name.endswith(" dram") for domain in domains)
    return SensorMeter(
        name="rapl",
        what="RAPL",
        source=PowerSource.RAPL,
        scope=Scope.CPU_AND_MEMORY if has_memory else Scope.CPU,
        error_ratio=_ERROR_RATIO,
        period_seconds=0.0,
        sensors=domains,
        read=read,
        files=sys / "class/powercap/intel-rapl*:*/energy_uj",
    )


def _read_zones(powercap: Path, control: str) -> dict[Path, str]:
    """Directory and name of each zone."""
    zones: dict[Path, str] = {}
    for folder in sorted(powercap.glob(f"{control}:*")):
        with suppress(OSError):
            zones[folder] = (folder / "name").read_text().strip()
    return zones


def _read_domain(name: str, zone: Path, *, counted: bool) -> Sensor:
    try:
        range_uj = parse_micro((zone / "max_energy_range_uj").read_text())
    except (OSError, ValueError):
        range_uj = 0
    return Sensor(name, zone / "energy_uj", counted, is_counter=True, range_uj=max(0, range_uj) or None)
