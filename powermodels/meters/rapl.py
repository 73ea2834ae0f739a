"""RAPL: the energy counters of CPU packages and memory, read from the kernel's powercap tree.

Zones overlap, so only some are added: each package (or die) and its dram, which is outside the package. core
and uncore are inside it. psys contains packages and more, but what more depends on the board, and on many it
is wrong. These are listed as parts but not added. The zones of intel-rapl-mmio are the same packages again:
they are ignored.

The power of a counter is unknown for an interval without a valid difference: no reading, a decrease that is
not a wrap, an interval long enough for two wraps, or more watts than a socket can use. If it is one that is
added, the sum is unknown too, since the sum of the others would be too small.
"""

import grp
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from powermodels.common.interface import Part, Scope
from powermodels.meters.counters import CounterReading, parse_micro, watts_between
from wire.messages import Gap, PowerSource

# On a server with both meters (Kepler model database, nx12) wall power minus RAPL is 105.7 W on average with
# a deviation of 13.9 W, a tenth of the power that RAPL reports.
_ERROR_RATIO = 0.1

_ZONE = re.compile(r"intel-rapl(?P<mmio>-mmio)?:[0-9a-f]+(?P<sub>:[0-9a-f]+)?")


@dataclass(frozen=True, slots=True)
class Domain:
    """A zone: a package, a die, its memory, or a zone that overlaps with these."""

    name: str
    energy_file: Path
    range_uj: int | None
    """Value at which its counter wraps; None if unknown."""
    counted: bool = True
    """Whether it is part of the sum; counted zones do not overlap."""


ReadEnergy = Callable[[Domain], int]
"""Reads the counter of a domain in microjoules; raises OSError or ValueError."""


def read_energy_uj(domain: Domain) -> int:
    """Read the counter of a domain."""
    return parse_micro(domain.energy_file.read_text())


def read_domains(sys: Path) -> tuple[Domain, ...]:
    """Read all zones below a root, each package followed by its parts."""
    zones = _read_zones(sys / "class/powercap")
    tops = {name: zone for zone, name in zones.items() if _is_top(zone)}
    domains: list[Domain] = []
    for name, zone in sorted(tops.items()):
        is_package = name.startswith("package-")
        domains.append(_read_domain(name, zone, counted=is_package))
        domains.extend(
            _read_domain(f"{name} {inner_name}", inner, counted=is_package and inner_name == "dram")
            for inner, inner_name in zones.items()
            if inner.name.startswith(f"{zone.name}:")
        )
    return tuple(domains)


def find_rapl(sys: Path, hypervisor: str | None) -> "RaplMeter | Gap":
    """Find the RAPL meter of the host, or the reason why there is none."""
    domains = read_domains(sys)
    if any(domain.counted for domain in domains):
        return RaplMeter(domains)
    if hypervisor is not None:
        return Gap("RAPL", f"this is a virtual machine ({hypervisor}), which hides the CPU's energy counters")
    return Gap(
        "RAPL",
        f"there is no RAPL package under {sys / 'class/powercap'}: this CPU has no energy counters, "
        "or its driver is not loaded: `sudo modprobe intel_rapl_msr`",
    )


class RaplMeter:
    """Total power of all packages and their memory, as mean watts from call to call."""

    name = "rapl"
    source = PowerSource.RAPL
    error_ratio = _ERROR_RATIO
    period_seconds = 0.0

    def __init__(self, domains: tuple[Domain, ...], read: ReadEnergy = read_energy_uj) -> None:
        self._domains = domains
        self._read = read
        self._last: dict[str, CounterReading] = {}
        self._watts: dict[str, float] = {}
        self._gap = next(
            (gap for domain in domains if domain.counted and (gap := self._read_domain(domain)[1])), None
        )

    @property
    def scope(self) -> Scope:
        has_memory = any(domain.counted and domain.name.endswith(" dram") for domain in self._domains)
        return Scope.CPU_AND_MEMORY if has_memory else Scope.CPU

    @property
    def gap(self) -> Gap | None:
        return self._gap

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(Part(each.name, self._watts.get(each.name), each.counted) for each in self._domains)

    def watts(self, monotonic_seconds: float) -> float | None:
        self._gap = None
        self._watts = {}
        for domain in self._domains:
            earlier = self._last.pop(domain.name, None)
            energy_uj, gap = self._read_domain(domain)
            if domain.counted:
                self._gap = self._gap or gap
            if energy_uj is None:
                continue
            later = self._last[domain.name] = CounterReading(monotonic_seconds, energy_uj)
            if earlier and (watts := watts_between(earlier, later, domain.range_uj)) is not None:
                self._watts[domain.name] = watts
        counted = [self._watts.get(domain.name) for domain in self._domains if domain.counted]
        values = [watts for watts in counted if watts is not None]
        return sum(values) if len(values) == len(counted) else None

    def describe(self) -> str:
        names = ", ".join(domain.name for domain in self._domains if domain.counted)
        return f"RAPL meter: {names} ({self.scope.value}), ±{_ERROR_RATIO:.0%}"

    def _read_domain(self, domain: Domain) -> tuple[int | None, Gap | None]:
        try:
            return self._read(domain), None
        except PermissionError:
            return None, Gap("RAPL", _permission_reason(domain.energy_file))
        except (OSError, ValueError) as error:
            return None, Gap("RAPL", f"{domain.energy_file} cannot be read: {error}")


def _read_zones(powercap: Path) -> dict[Path, str]:
    """Directory and name of each RAPL zone; those of MMIO only without others."""
    found: dict[bool, dict[Path, str]] = {False: {}, True: {}}
    for folder in sorted(powercap.glob("intel-rapl*")):
        zone = _ZONE.fullmatch(folder.name)
        if zone is None:
            continue
        try:
            found[zone["mmio"] is not None][folder] = (folder / "name").read_text().strip()
        except OSError:
            continue
    return found[False] or found[True]


def _is_top(zone: Path) -> bool:
    match = _ZONE.fullmatch(zone.name)
    return match is not None and match["sub"] is None


def _read_domain(name: str, zone: Path, *, counted: bool) -> Domain:
    try:
        range_uj = parse_micro((zone / "max_energy_range_uj").read_text())
    except (OSError, ValueError):
        range_uj = 0
    return Domain(name, zone / "energy_uj", range_uj if range_uj > 0 else None, counted)


def _permission_reason(energy_file: Path) -> str:
    files = energy_file.parent.parent / "intel-rapl*:*" / "energy_uj"
    return (
        f"no permission to read {energy_file}, which only root may read; to allow the agent's group: "
        f"sudo sh -c 'chgrp {own_group()} {files} && chmod g+r {files}'"
    )


def own_group() -> str:
    """Name of the group of this process."""
    try:
        return grp.getgrgid(os.getegid()).gr_name
    except KeyError:
        return str(os.getegid())
