"""RAPL counters read through pyRAPL, if `power.rapl_reader` selects it.

pyRAPL uses fixed paths, does not handle counter wraps and fails on CPUs with several dies, so it is not the
default. It only reads the counters: `RaplMeter` computes the power in both cases.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from powermodels.meters.rapl import Domain, RaplMeter, read_domains
from wire.messages import Gap

PYRAPL = "pyRAPL"
"""What is missing, in a gap."""

Energies = Callable[[], Sequence[float]]
"""Values of pyRAPL: package and dram of socket 0, then of socket 1, in microjoules; -1 for none."""


def find_pyrapl(sys: Path, hypervisor: str | None) -> RaplMeter | Gap:  # noqa: ARG001 - the table's form
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


def meter_through(energies: Energies, sys: Path) -> RaplMeter:
    """Create a meter of the packages and memories below a root that reads through pyRAPL."""
    places: dict[str, int] = {}
    for domain in read_domains(sys):
        package, _, inner = domain.name.partition(" ")
        if domain.counted:
            places[domain.name] = 2 * int(package.removeprefix("package-")) + (inner == "dram")

    def read(domain: Domain) -> int:
        energy_uj = energies()[places[domain.name]]
        if energy_uj < 0:
            raise ValueError(f"pyRAPL has no {domain.name}")
        return int(energy_uj)

    return RaplMeter(tuple(domain for domain in read_domains(sys) if domain.counted), read)
