"""The prior: power of a host without a meter, from its hardware.

The level comes from published machines of the same CPU generation (`published_machines`), fitted to this
host's size: idle power by sockets, what load adds by sockets and by cores^0.65 of each. A generation is
identified by the numbers of a CPU, since guests often hide its name: family, model and stepping as in Linux'
intel-family.h and AMD's revision guides, implementer and part on ARM. Each has one socket with the median of
its published machines per socket: idle power, which hardly depends on the number of cores, and dynamic power,
which grows slower than it. `bench.power.prior` measures the error on machines that are not in the table.

The curve between idle and full is `(1 - s) u^1.5 + s sqrt(u)` with s = 0.4: the first busy core wakes
shared parts, so power rises steeply from idle, then flattens, and rises again when the last cores run at
their highest frequency. Between a machine's own idle and full power its error is 6.6 % on average over the
published curves of `bench.power.published_curves`, and that of a straight line 6.8 %; with
utilisation as the kernel counts it, on three metered servers (Canuto et al., "power-modelling"), 10.3 %, a
straight line 12.1 %. Both numbers of the curve were chosen on these same data.

Inside a virtual machine, the published machines are divided by hardware threads, one per vCPU: the share of a
guest on a fully used host of that generation.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from statistics import median
from typing import ClassVar, Self

from powermodels.common.interface import CpuIdentity, HostFacts, Load, Scope, Terms
from powermodels.models.basis import unit
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

INTEL, AMD, ARM = "GenuineIntel", "AuthenticAMD", "ARM"

CORES_EXPONENT = 0.65
# Published machines have about this much memory per hardware thread (EPYC 7742: 1.0, 9654: 1.0, Platinum
# 8280L: 1.7, E5-2660: 0.75), so their watts include it; the idle power of more is subtracted.
_GB_PER_THREAD = 1.0
# Cloud Carbon Footprint, methodology: 0.392 W per GB of memory in use. Published machines of one maker that
# differ in memory only (EPYC 9965, Xeon 6787P, E5-2640, Opteron 6276) draw 0.2-1.0 W more per further GB at
# full load and -0.02-0.3 W at idle, with a median idle share of 0.3.
_MEMORY_WATTS_PER_GB = 0.392
_MEMORY_IDLE_WATTS_PER_GB = 0.3 * _MEMORY_WATTS_PER_GB
_MEMORY_DYNAMIC_WATTS_PER_GB = _MEMORY_WATTS_PER_GB - _MEMORY_IDLE_WATTS_PER_GB


@dataclass(frozen=True, slots=True)
class Generation:
    """CPUs of one design."""

    name: str
    vendor: str
    family: int
    models: Collection[int]
    server: bool = True
    """A server CPU; otherwise a desktop CPU, also in entry servers."""
    steppings: range = range(256)

    def includes(self, cpu: CpuIdentity) -> bool:
        return (
            cpu.vendor == self.vendor
            and cpu.family == self.family
            and cpu.model in self.models
            and cpu.stepping in self.steppings
        )


@dataclass(frozen=True, slots=True)
class Match:
    """The socket that represents a host, and whether it is of the same generation."""

    name: str
    machine: Machine
    is_same_generation: bool


# The first row that contains a CPU applies.
GENERATIONS: tuple[Generation, ...] = (
    Generation("Intel NetBurst", INTEL, 15, {3, 4, 6}),
    Generation("Intel Core 2 server", INTEL, 6, {15, 22}),
    Generation("Intel Penryn server", INTEL, 6, {23, 29}),
    Generation("Intel Nehalem server", INTEL, 6, {26, 46}),
    Generation("Intel Nehalem desktop", INTEL, 6, {30, 31, 37}, server=False),
    Generation("Intel Westmere server", INTEL, 6, {44, 47}),
    Generation("Intel Sandy Bridge desktop", INTEL, 6, {42}, server=False),
    Generation("Intel Sandy or Ivy Bridge server", INTEL, 6, {45, 62}),
    Generation("Intel Ivy Bridge desktop", INTEL, 6, {58}, server=False),
    # Including Broadwell desktop.
    Generation("Intel Haswell desktop", INTEL, 6, {60, 61, 69, 70, 71}, server=False),
    Generation("Intel Haswell server", INTEL, 6, {63}),
    Generation("Intel Broadwell server", INTEL, 6, {79, 86}),
    Generation("Intel Skylake to Comet Lake desktop", INTEL, 6, {78, 94, 142, 158, 165, 166}, server=False),
    # Model 85 is Skylake, Cascade Lake and Cooper Lake, distinguished by the stepping.
    Generation("Intel Skylake server", INTEL, 6, {85}, steppings=range(5)),
    Generation("Intel Cascade or Cooper Lake server", INTEL, 6, {85}),
    Generation("Intel Ice Lake server", INTEL, 6, {106, 108}),
    Generation(
        "Intel Ice Lake to Raptor Lake desktop",
        INTEL,
        6,
        {125, 126, 140, 141, 151, 154, 167, 183, 186, 191},
        server=False,
    ),
    Generation("Intel Sapphire Rapids server", INTEL, 6, {143}),
    Generation("Intel Emerald Rapids server", INTEL, 6, {207}),
    Generation("Intel Granite Rapids server", INTEL, 6, {173, 174}),
    Generation("Intel Sierra Forest server", INTEL, 6, {175}),
    Generation("AMD Magny-Cours server", AMD, 16, range(9, 10)),
    Generation("AMD K10 server", AMD, 16, range(9)),
    Generation("AMD Bulldozer or Piledriver server", AMD, 21, range(16)),
    Generation("AMD EPYC, 1st generation", AMD, 23, range(1, 2)),
    Generation("AMD EPYC, 2nd generation", AMD, 23, range(49, 50)),
    Generation("AMD EPYC, 3rd generation", AMD, 25, range(16)),
    Generation("AMD EPYC, 4th generation", AMD, 25, range(16, 32)),
    Generation("AMD EPYC, 4th generation, dense cores", AMD, 25, range(160, 176)),
    Generation("AMD EPYC, 5th generation", AMD, 26, range(16)),
    Generation("AMD EPYC, 5th generation, dense cores", AMD, 26, range(16, 32)),
    Generation("AMD Zen 4 desktop", AMD, 25, range(96, 128), server=False),
    Generation("ARM Neoverse N1 server", ARM, 0x41, {0xD0C}),
    Generation("ARM Neoverse V2 server", ARM, 0x41, {0xD4F}),
    Generation("ARM Cortex-A board", ARM, 0x41, {0xD03, 0xD04, 0xD05, *range(0xD07, 0xD0C)}, server=False),
)

# The highest number of cores of a desktop CPU of these generations.
_DESKTOP_CORES = 24


def match_machine(facts: HostFacts, machines: Mapping[str, Sequence[Machine]] = MACHINES) -> Match:
    """The socket of the host's generation, or a typical one of its vendor and class."""
    if facts.cpu is not None:
        for generation in GENERATIONS:
            if generation.includes(facts.cpu) and machines[generation.name]:
                return Match(
                    generation.name, _median_socket(machines[generation.name]), is_same_generation=True
                )
    server = _looks_like_server(facts)
    kind = "server" if server else "desktop"
    of_kind = [g for g in GENERATIONS if g.server == server and machines[g.name]]
    of_vendor = [g for g in of_kind if facts.cpu is not None and g.vendor == facts.cpu.vendor]
    name = f"{facts.cpu.vendor} {kind}" if facts.cpu is not None and of_vendor else kind
    # Each generation counts once, independent of its number of published machines.
    sockets = [_median_socket(machines[generation.name]) for generation in of_vendor or of_kind]
    return Match(f"typical {name}", _median_socket(sockets), is_same_generation=False)


def _looks_like_server(facts: HostFacts) -> bool:
    # A guest runs on a server, even if it has few cores.
    return (
        facts.hypervisor is not None
        or facts.sockets > 1
        or facts.cores > _DESKTOP_CORES
        or any(name in facts.cpu_model for name in ("Xeon", "EPYC", "Opteron", "Neoverse", "Ampere"))
    )


def _median_socket(machines: Sequence[Machine]) -> Machine:
    """One socket with the median of all values."""
    cores = round(median(machine.cores_per_socket for machine in machines))
    idle_watts = median(_idle_watts_per_socket(machine) for machine in machines)
    dynamic_watts = cores**CORES_EXPONENT * median(
        machine.dynamic_watts / machine.sockets / machine.cores_per_socket**CORES_EXPONENT
        for machine in machines
    )
    threads_per_core = round(median(machine.threads_per_core for machine in machines))
    source = machines[0].source if len(machines) == 1 else f"the median of {len(machines)} published ones"
    return Machine(source, 1, cores, idle_watts, idle_watts + dynamic_watts, threads_per_core)


def _idle_watts_per_socket(machine: Machine) -> float:
    further_gb = max(0.0, (machine.memory_gb or 0) - _GB_PER_THREAD * machine.threads)
    return (machine.idle_watts - further_gb * _MEMORY_IDLE_WATTS_PER_GB) / machine.sockets


@dataclass(frozen=True, slots=True)
class PriorModel:
    """Power of one host from its hardware; the module docstring explains its origin."""

    source: ClassVar = PowerSource.PRIOR
    scope: ClassVar = Scope.NODE
    full: Terms
    """Watts per term at full usage."""
    error_ratio: float
    description: str

    @classmethod
    def for_host(cls, facts: HostFacts, machines: Mapping[str, Sequence[Machine]] = MACHINES) -> Self:
        match = match_machine(facts, machines)
        idle_watts, dynamic_watts = _guest_share(facts, match) if facts.hypervisor else _own(facts, match)
        gigabytes = facts.memory_bytes / _GB
        counted_gigabytes = min(gigabytes, facts.threads * _GB_PER_THREAD)
        further_gigabytes = gigabytes - counted_gigabytes
        full = Terms(
            idle_watts=idle_watts + further_gigabytes * _MEMORY_IDLE_WATTS_PER_GB,
            # The published dynamic watts include memory, which has its own term here.
            cpu_watts=max(0.0, dynamic_watts - counted_gigabytes * _MEMORY_DYNAMIC_WATTS_PER_GB),
            memory_watts=gigabytes * _MEMORY_DYNAMIC_WATTS_PER_GB,
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
