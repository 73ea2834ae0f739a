"""The prior: power of a host without a meter, from its hardware.

The level comes from published machines of the same CPU generation (`published`), fitted to this host's size:
idle power by sockets, what load adds by sockets and by cores^0.65 of each.

The curve between idle and full is `(1 - s) u^1.5 + s sqrt(u)` with s = 0.4: the first busy core wakes
shared parts, so power rises steeply from idle, then flattens, and rises again when the last cores run at
their highest frequency. Between a machine's own idle and full power its error is 6.6 % on average over the
published curves of `bench.power.published_curves`, and that of a straight line 6.8 %; with
utilisation as the kernel counts it, on three metered servers (Canuto et al., "power-modelling"), 10.3 %, a
straight line 12.1 %. Both numbers of the curve were chosen on these same data.

Inside a virtual machine, the published machines are divided by hardware threads, one per vCPU: the share of a
guest on a fully used host of that generation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from typing import Self

from powermodels.common.interface import HostFacts, Load, Scope, Terms
from powermodels.models.basis import unit
from powermodels.models.published import (
    CORES_EXPONENT,
    GB_PER_THREAD,
    MEMORY_DYNAMIC_WATTS_PER_GB,
    MEMORY_IDLE_WATTS_PER_GB,
    Match,
    match_machine,
)
from powermodels.models.published_machines import MACHINES, Machine
from wire.messages import PowerSource

_ROOT_SHARE = 0.4

# Watts of a busy disk or network as a share of what CPU load adds, median of the same three metered servers
# under their disk and network micro-benchmarks (disk 2, 4, 10 %; network 1, 6, 35 %).
_DISK_SHARE = 0.04
_NETWORK_SHARE = 0.06

# On published machines left out of its table it is off by 13 % (`bench.power.prior`); that flatters
# it, since those machines were tuned for the benchmark. On the three metered servers, as found in use, it
# is off by 38, 21 and 49 % (sockets and memory assumed, not on record).
_ERROR_SAME_GENERATION = 0.4
# The typical machine of a vendor, instead of one of the generation, has 1.5 times the error on those results.
_ERROR_TYPICAL = 0.6
# On a half used host, a guest's share of the idle power is twice as large, and idle power is about 40 % of a
# guest's power at moderate load.
ERROR_OF_SHARE = 0.4

_GB = 1e9


@dataclass(frozen=True, slots=True)
class PriorModel:
    """Power of one host from its hardware; the module docstring explains its origin."""

    full: Terms
    """Watts per term at full usage."""
    error_ratio: float
    description: str

    @property
    def source(self) -> PowerSource:
        return PowerSource.PRIOR

    @property
    def scope(self) -> Scope:
        return Scope.NODE

    @classmethod
    def for_host(cls, facts: HostFacts, machines: Mapping[str, Sequence[Machine]] = MACHINES) -> Self:
        match = match_machine(facts, machines)
        idle_watts, dynamic_watts = _guest_share(facts, match) if facts.hypervisor else _own(facts, match)
        gigabytes = facts.memory_bytes / _GB
        counted_gigabytes = min(gigabytes, facts.threads * GB_PER_THREAD)
        further_gigabytes = gigabytes - counted_gigabytes
        full = Terms(
            idle_watts=idle_watts + further_gigabytes * MEMORY_IDLE_WATTS_PER_GB,
            # The published dynamic watts include memory, which has its own term here.
            cpu_watts=max(0.0, dynamic_watts - counted_gigabytes * MEMORY_DYNAMIC_WATTS_PER_GB),
            memory_watts=gigabytes * MEMORY_DYNAMIC_WATTS_PER_GB,
            disk_watts=dynamic_watts * _DISK_SHARE,
            network_watts=dynamic_watts * _NETWORK_SHARE,
        )
        return cls(full, _error_ratio(facts, match), _describe(facts, match))

    def terms(self, load: Load) -> Terms:
        full = self.full
        return Terms(
            idle_watts=full.idle_watts,
            cpu_watts=full.cpu_watts * published_curve(unit(load.cpu_ratio)),
            memory_watts=full.memory_watts * unit(load.memory_ratio),
            disk_watts=full.disk_watts * unit(load.disk_ratio),
            network_watts=full.network_watts * unit(load.network_ratio),
        )

    def describe(self) -> str:
        return f"{self.description}, ±{self.error_ratio:.0%}"


def published_curve(cpu_ratio: float) -> float:
    """Share of the range from idle to full power at a CPU usage."""
    return (1 - _ROOT_SHARE) * cpu_ratio * sqrt(cpu_ratio) + _ROOT_SHARE * sqrt(cpu_ratio)


def _own(facts: HostFacts, match: Match) -> tuple[float, float]:
    """Idle and dynamic watts of a physical machine."""
    socket = match.machine
    relative_cores = facts.cores / facts.sockets / socket.cores_per_socket
    return (
        facts.sockets * socket.idle_watts,
        facts.sockets * socket.dynamic_watts * relative_cores**CORES_EXPONENT,
    )


def _guest_share(facts: HostFacts, match: Match) -> tuple[float, float]:
    """Idle and dynamic watts of a guest: its vCPUs' share of the published socket."""
    share = facts.threads / match.machine.threads
    return share * match.machine.idle_watts, share * match.machine.dynamic_watts


def _error_ratio(facts: HostFacts, match: Match) -> float:
    error_ratio = _ERROR_SAME_GENERATION if match.is_same_generation else _ERROR_TYPICAL
    return hypot(error_ratio, ERROR_OF_SHARE) if facts.hypervisor is not None else error_ratio


def _describe(facts: HostFacts, match: Match) -> str:
    gibibytes = f"{facts.memory_bytes / (1 << 30):.0f} GiB"
    like = f"estimated from {match.name} ({match.machine.source})"
    if facts.hypervisor is not None:
        return (
            f"prior for a guest's share, {facts.threads} vCPUs of {facts.cpu_model} and {gibibytes} "
            f"under {facts.hypervisor}, {like}"
        )
    return f"prior for {facts.sockets} x {facts.cpu_model}, {facts.cores} cores and {gibibytes}, {like}"
