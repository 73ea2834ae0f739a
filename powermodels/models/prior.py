"""The prior: watts of a host that was never metered, from what is known of it.

The level comes from a published machine of the same CPU generation (`published`), fitted to this host's
size. In published results of one generation idle power hardly depends on the number of cores (EPYC 8004:
62-75 W from 8 to 64 cores; Skylake: 52-55 W from 2 x 14 to 2 x 28), so it goes by sockets. What load adds
grows slower than the cores of a socket: as cores^0.65 over EPYC 8004 and Sapphire Rapids results, 1.0 on
Skylake, 0.2 on the first EPYC.

The curve between idle and full is `(1 - s) u + s sqrt(u)` with s = 0.5: the first busy core wakes what all
share, so power rises steeply from idle and then flattens. Against utilisation as the kernel counts it, on
three metered servers (Canuto et al., "power-modelling"), a straight line between their own idle and full
power errs 11.1 % on average, s = 0.5 8.1 % and s = 1 6.5 %; on five published SPECpower curves 3.3 %, 6.1 %
and 12.7 %. s = 0.5 is the middle between real services and the benchmark, chosen on these same data.

Inside a virtual machine the same published machine is shared out by hardware threads, one per vCPU: the
guest's part of a fully let host of that generation.
"""

from dataclasses import dataclass
from math import hypot, sqrt
from typing import Self

from powermodels.interface import HostFacts, Load, Terms
from powermodels.models.published import Match, match_machine
from wire.messages import PowerSource

_SQRT_SHARE = 0.5
_CORES_EXPONENT = 0.65

# Cloud Carbon Footprint, methodology: 0.392 W per GB of memory in use. Published machines of one maker that
# differ in memory only (EPYC 9965, Xeon 6787P, E5-2640, Opteron 6276) draw 0.2-1.0 W more per further GB at
# full load and -0.02-0.3 W at idle, with a median idle share of 0.3.
_MEMORY_WATTS_PER_GB = 0.392
_MEMORY_IDLE_WATTS_PER_GB = 0.3 * _MEMORY_WATTS_PER_GB
_MEMORY_DYNAMIC_WATTS_PER_GB = _MEMORY_WATTS_PER_GB - _MEMORY_IDLE_WATTS_PER_GB
# Published machines hold about this much per hardware thread (EPYC 7742: 1.0, 9654: 1.0, Platinum 8280L: 1.7,
# E5-2660: 0.75), so that much memory is in their watts already.
_GB_IN_PUBLISHED_THREAD = 1.0

# Watts of a busy disk or network as a share of what CPU load adds, median of the same three metered servers
# under their disk and network micro-benchmarks (disk 2, 4, 10 %; network 1, 6, 35 %).
_DISK_SHARE = 0.04
_NETWORK_SHARE = 0.06

# Against further published results (tests/powermodels/published_results.py) this is off by 14 % at full load
# and 20 % at idle on average; that flatters it, since those machines were tuned for the benchmark and the
# exponent and the memory's idle share above were chosen with some of them in view. The three metered servers,
# as found in use, are off by 13, 38 and 71 % (sockets and memory assumed, not on record): 40 % on average.
_ERROR_KNOWN = 0.4
# The typical machine of a vendor instead of the generation's own errs half as much again on those results.
_ERROR_TYPICAL = 0.6
# On a host that is let to one half, a guest's share of the idle power is twice as large, and idle power is
# some 40 % of a guest's watts at moderate load.
_ERROR_OF_SHARE = 0.4

_GB = 1e9


@dataclass(frozen=True, slots=True)
class PriorModel:
    """Full-scale watts per term for one host; see the module for where they come from."""

    idle_watts: float
    cpu_watts: float
    memory_watts: float
    disk_watts: float
    network_watts: float
    error_ratio: float
    description: str

    @property
    def source(self) -> PowerSource:
        return PowerSource.PRIOR

    @classmethod
    def for_host(cls, facts: HostFacts) -> Self:
        match = match_machine(facts)
        idle_watts, dynamic_watts = _guest_share(facts, match) if facts.hypervisor else _own(facts, match)
        gigabytes = facts.memory_bytes / _GB
        counted_gigabytes = min(gigabytes, facts.threads * _GB_IN_PUBLISHED_THREAD)
        further_gigabytes = gigabytes - counted_gigabytes
        return cls(
            idle_watts=idle_watts + further_gigabytes * _MEMORY_IDLE_WATTS_PER_GB,
            # The published dynamic watts hold their memory's: taken out here, it has a term of its own.
            cpu_watts=max(0.0, dynamic_watts - counted_gigabytes * _MEMORY_DYNAMIC_WATTS_PER_GB),
            memory_watts=gigabytes * _MEMORY_DYNAMIC_WATTS_PER_GB,
            disk_watts=dynamic_watts * _DISK_SHARE,
            network_watts=dynamic_watts * _NETWORK_SHARE,
            error_ratio=_error_ratio(facts, match),
            description=_describe(facts, match),
        )

    def terms(self, load: Load) -> Terms:
        cpu_ratio = _unit(load.cpu_ratio)
        return Terms(
            idle_watts=self.idle_watts,
            cpu_watts=self.cpu_watts * ((1 - _SQRT_SHARE) * cpu_ratio + _SQRT_SHARE * sqrt(cpu_ratio)),
            memory_watts=self.memory_watts * _unit(load.memory_ratio),
            disk_watts=self.disk_watts * _unit(load.disk_ratio),
            network_watts=self.network_watts * _unit(load.network_ratio),
        )

    def describe(self) -> str:
        return f"{self.description}, ±{self.error_ratio:.0%}"


def _own(facts: HostFacts, match: Match) -> tuple[float, float]:
    """Idle and dynamic watts of a machine of its own."""
    machine = match.machine
    relative_cores = facts.cores / facts.sockets / machine.cores_per_socket
    return (
        facts.sockets * machine.idle_watts_per_socket,
        facts.sockets * machine.dynamic_watts_per_socket * relative_cores**_CORES_EXPONENT,
    )


def _guest_share(facts: HostFacts, match: Match) -> tuple[float, float]:
    """Idle and dynamic watts of a guest: its vCPUs' share of the published machine."""
    machine = match.machine
    share = facts.threads / machine.threads
    return share * machine.idle_watts, share * (machine.max_watts - machine.idle_watts)


def _error_ratio(facts: HostFacts, match: Match) -> float:
    error_ratio = _ERROR_KNOWN if match.known else _ERROR_TYPICAL
    return hypot(error_ratio, _ERROR_OF_SHARE) if facts.hypervisor is not None else error_ratio


def _describe(facts: HostFacts, match: Match) -> str:
    gibibytes = f"{facts.memory_bytes / (1 << 30):.0f} GiB"
    like = f"reckoned like {match.name} ({match.machine.source})"
    if facts.hypervisor is not None:
        return (
            f"prior for a guest's share, {facts.threads} vCPUs of {facts.cpu_model} and {gibibytes} "
            f"under {facts.hypervisor}, {like}"
        )
    return f"prior for {facts.sockets} x {facts.cpu_model}, {facts.cores} cores and {gibibytes}, {like}"


def _unit(ratio: float | None) -> float:
    """A ratio within 0-1; what is not known adds nothing."""
    return 0.0 if ratio is None else min(1.0, max(0.0, ratio))
