"""CPU generations, and the published machines of each, which the prior is based on.

A generation is identified by the numbers of a CPU, since guests often hide its name: family, model and
stepping as in Linux' intel-family.h and AMD's revision guides, implementer and part on ARM. Each has one
socket with the median of its published machines (`published_machines`) per socket: idle power, which hardly
depends on the number of cores, and dynamic power, which grows slower than it. `bench.power.prior`
measures the error on machines that are not in the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from powermodels.common.interface import CpuIdentity, HostFacts
from powermodels.models.published_machines import MACHINES, Machine

INTEL, AMD, ARM = "GenuineIntel", "AuthenticAMD", "ARM"

CORES_EXPONENT = 0.65
# Published machines have about this much memory per hardware thread (EPYC 7742: 1.0, 9654: 1.0, Platinum
# 8280L: 1.7, E5-2660: 0.75), so their watts include it; the idle power of more is subtracted.
GB_PER_THREAD = 1.0
# Cloud Carbon Footprint, methodology: 0.392 W per GB of memory in use. Published machines of one maker that
# differ in memory only (EPYC 9965, Xeon 6787P, E5-2640, Opteron 6276) draw 0.2-1.0 W more per further GB at
# full load and -0.02-0.3 W at idle, with a median idle share of 0.3.
_MEMORY_WATTS_PER_GB = 0.392
MEMORY_IDLE_WATTS_PER_GB = 0.3 * _MEMORY_WATTS_PER_GB
MEMORY_DYNAMIC_WATTS_PER_GB = _MEMORY_WATTS_PER_GB - MEMORY_IDLE_WATTS_PER_GB


@dataclass(frozen=True, slots=True)
class Generation:
    """CPUs of one design."""

    name: str
    server: bool
    """A server CPU; otherwise a desktop CPU, also in entry servers."""
    vendor: str
    family: int
    models: frozenset[int]
    steppings: range = range(256)

    def includes(self, cpu: CpuIdentity) -> bool:
        """Whether a CPU is of this generation."""
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


def _intel(name: str, models: set[int], *, server: bool, family: int = 6) -> Generation:
    return Generation(name, server, INTEL, family, frozenset(models))


def _amd(name: str, family: int, models: range, *, server: bool) -> Generation:
    return Generation(name, server, AMD, family, frozenset(models))


def _arm(name: str, parts: set[int], *, server: bool) -> Generation:
    return Generation(name, server, ARM, 0x41, frozenset(parts))


# The first row that contains a CPU applies.
GENERATIONS: tuple[Generation, ...] = (
    _intel("Intel NetBurst", {3, 4, 6}, server=True, family=15),
    _intel("Intel Core 2 server", {15, 22}, server=True),
    _intel("Intel Penryn server", {23, 29}, server=True),
    _intel("Intel Nehalem server", {26, 46}, server=True),
    _intel("Intel Nehalem desktop", {30, 31, 37}, server=False),
    _intel("Intel Westmere server", {44, 47}, server=True),
    _intel("Intel Sandy Bridge desktop", {42}, server=False),
    _intel("Intel Sandy or Ivy Bridge server", {45, 62}, server=True),
    _intel("Intel Ivy Bridge desktop", {58}, server=False),
    # Including Broadwell desktop.
    _intel("Intel Haswell desktop", {60, 61, 69, 70, 71}, server=False),
    _intel("Intel Haswell server", {63}, server=True),
    _intel("Intel Broadwell server", {79, 86}, server=True),
    _intel("Intel Skylake to Comet Lake desktop", {78, 94, 142, 158, 165, 166}, server=False),
    # Model 85 is Skylake, Cascade Lake and Cooper Lake, distinguished by the stepping.
    replace(_intel("Intel Skylake server", {85}, server=True), steppings=range(5)),
    _intel("Intel Cascade or Cooper Lake server", {85}, server=True),
    _intel("Intel Ice Lake server", {106, 108}, server=True),
    _intel(
        "Intel Ice Lake to Raptor Lake desktop",
        {125, 126, 140, 141, 151, 154, 167, 183, 186, 191},
        server=False,
    ),
    _intel("Intel Sapphire Rapids server", {143}, server=True),
    _intel("Intel Emerald Rapids server", {207}, server=True),
    _intel("Intel Granite Rapids server", {173, 174}, server=True),
    _intel("Intel Sierra Forest server", {175}, server=True),
    _amd("AMD Magny-Cours server", 16, range(9, 10), server=True),
    _amd("AMD K10 server", 16, range(9), server=True),
    _amd("AMD Bulldozer or Piledriver server", 21, range(16), server=True),
    _amd("AMD EPYC, 1st generation", 23, range(1, 2), server=True),
    _amd("AMD EPYC, 2nd generation", 23, range(49, 50), server=True),
    _amd("AMD EPYC, 3rd generation", 25, range(16), server=True),
    _amd("AMD EPYC, 4th generation", 25, range(16, 32), server=True),
    _amd("AMD EPYC, 4th generation, dense cores", 25, range(160, 176), server=True),
    _amd("AMD EPYC, 5th generation", 26, range(16), server=True),
    _amd("AMD EPYC, 5th generation, dense cores", 26, range(16, 32), server=True),
    _amd("AMD Zen 4 desktop", 25, range(96, 128), server=False),
    _arm("ARM Neoverse N1 server", {0xD0C}, server=True),
    _arm("ARM Neoverse V2 server", {0xD4F}, server=True),
    _arm("ARM Cortex-A board", {0xD03, 0xD04, 0xD05, 0xD07, 0xD08, 0xD09, 0xD0A, 0xD0B}, server=False),
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
    further_gb = max(0.0, (machine.memory_gb or 0) - GB_PER_THREAD * machine.threads)
    return (machine.idle_watts - further_gb * MEMORY_IDLE_WATTS_PER_GB) / machine.sockets
