"""RAPL: the energy counters of CPU packages and memory, read from the kernel's powercap tree.

Zones overlap, so only some are added: every package (or die of one) and its dram, which lies outside the
package. core and uncore lie inside it; psys holds packages and more; the zones of intel-rapl-mmio are the
same packages seen a second time.

A counter is only worth something as a difference. One that cannot be trusted (no reading, a step back
that is not a wrap, an interval in which it may have wrapped twice, more watts than a socket can draw)
makes the whole interval unknown: the sum of the others would be a wrong number, too small and unmarked.
"""

import grp
import os
import re
from dataclasses import dataclass
from pathlib import Path

from powermodels.interface import Scope
from wire.messages import Gap, PowerSource

# On a server with both meters (Kepler model database, nx12) the wall's power less RAPL's is 105.7 W on
# average with a deviation of 13.9 W, a tenth of what RAPL shows: so closely it follows what it sees.
_ERROR_RATIO = 0.1

# Twice what the largest server CPUs are made for today; more is a counter's fault.
_MAX_DOMAIN_WATTS = 1000.0

# Where a counter's range is unknown: the smallest in use, 65 kJ, would wrap after this long at full power.
_LONGEST_SECONDS_WITHOUT_RANGE = 60.0

_ZONE = re.compile(r"intel-rapl(?P<mmio>-mmio)?:[0-9a-f]+(?P<sub>:[0-9a-f]+)?")


@dataclass(frozen=True, slots=True)
class Domain:
    """A zone that is added up: a package, a die, or the memory beside one."""

    name: str
    energy_file: Path
    range_uj: int | None
    """Where its counter begins anew; None where that cannot be read."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A domain's counter as of one instant."""

    monotonic_seconds: float
    energy_uj: int


def watts_between(earlier: Counted, later: Counted, range_uj: int | None) -> float | None:
    """Mean watts between two readings of one domain; None where the difference cannot be trusted."""
    seconds = later.monotonic_seconds - earlier.monotonic_seconds
    longest_seconds = (
        _LONGEST_SECONDS_WITHOUT_RANGE if range_uj is None else range_uj / 1e6 / _MAX_DOMAIN_WATTS
    )
    if not 0 < seconds <= longest_seconds:
        return None
    energy_uj = later.energy_uj - earlier.energy_uj
    if energy_uj < 0:
        if range_uj is None:
            return None
        energy_uj += range_uj
    # A counter that was reset looks like a wrap with nearly its whole range in between: far too many watts.
    watts = energy_uj / 1e6 / seconds
    return watts if 0 <= watts <= _MAX_DOMAIN_WATTS else None


def read_domains(sys: Path) -> tuple[Domain, ...]:
    """The zones to add up: none of them overlaps another."""
    zones = _read_zones(sys / "class/powercap")
    packages = {name: zone for zone, name in zones.items() if name.startswith("package-") and _is_top(zone)}
    domains: list[Domain] = []
    for name, zone in sorted(packages.items()):
        domains.append(_read_domain(name, zone))
        domains.extend(
            _read_domain(f"{name} dram", inner)
            for inner, inner_name in zones.items()
            if inner_name == "dram" and inner.name.startswith(f"{zone.name}:")
        )
    return tuple(domains)


def find_rapl(sys: Path, hypervisor: str | None) -> "RaplMeter | Gap":
    """The host's RAPL meter, or why there is none."""
    domains = read_domains(sys)
    if domains:
        return RaplMeter(domains)
    if hypervisor is not None:
        return Gap("RAPL", f"this is a virtual machine ({hypervisor}), which hides the CPU's energy counters")
    return Gap(
        "RAPL",
        f"there is no RAPL package under {sys / 'class/powercap'}: this CPU has no energy counters, "
        "or `sudo modprobe intel_rapl_msr` is missing",
    )


class RaplMeter:
    """The sum of a host's domains, as mean watts from call to call."""

    def __init__(self, domains: tuple[Domain, ...]) -> None:
        self._domains = domains
        self._last: dict[str, Counted] = {}
        self._gap: Gap | None = None
        for domain in domains:
            if self._gap is None:
                _, self._gap = _read_energy(domain)

    @property
    def source(self) -> PowerSource:
        return PowerSource.RAPL

    @property
    def scope(self) -> Scope:
        has_memory = any(domain.name.endswith(" dram") for domain in self._domains)
        return Scope.CPU_AND_MEMORY if has_memory else Scope.CPU

    @property
    def error_ratio(self) -> float:
        return _ERROR_RATIO

    @property
    def gap(self) -> Gap | None:
        return self._gap

    def watts(self, monotonic_seconds: float) -> float | None:
        total_watts: float | None = 0.0
        self._gap = None
        for domain in self._domains:
            earlier = self._last.pop(domain.name, None)
            energy_uj, gap = _read_energy(domain)
            self._gap = self._gap or gap
            watts = None
            if energy_uj is not None:
                later = self._last[domain.name] = Counted(monotonic_seconds, energy_uj)
                watts = watts_between(earlier, later, domain.range_uj) if earlier is not None else None
            total_watts = None if watts is None or total_watts is None else total_watts + watts
        return total_watts

    def describe(self) -> str:
        names = ", ".join(domain.name for domain in self._domains)
        return f"RAPL meter: {names} ({self.scope.value}), ±{_ERROR_RATIO:.0%}"


def _read_zones(powercap: Path) -> dict[Path, str]:
    """Every RAPL zone's folder and name; those behind MMIO only where the others are missing."""
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


def _read_domain(name: str, zone: Path) -> Domain:
    try:
        range_uj = int((zone / "max_energy_range_uj").read_text())
    except (OSError, ValueError):
        range_uj = 0
    return Domain(name, zone / "energy_uj", range_uj if range_uj > 0 else None)


def _read_energy(domain: Domain) -> tuple[int | None, Gap | None]:
    try:
        return int(domain.energy_file.read_text()), None
    except PermissionError:
        return None, Gap("RAPL", _how_to_open(domain.energy_file))
    except (OSError, ValueError) as error:
        return None, Gap("RAPL", f"{domain.energy_file} cannot be read: {error}")


def _how_to_open(energy_file: Path) -> str:
    files = energy_file.parent.parent / "intel-rapl*:*" / "energy_uj"
    return (
        f"no permission to read {energy_file}, which the kernel keeps for root; to open it for the agent's "
        f"group: sudo sh -c 'chgrp {_own_group()} {files} && chmod g+r {files}'"
    )


def _own_group() -> str:
    try:
        return grp.getgrgid(os.getegid()).gr_name
    except KeyError:
        return str(os.getegid())
