"""CPU generations, and the published machines that stand for each: what the prior reckons with.

Generations are told by the numbers a CPU gives of itself, since guests often hide the name: family, model and
stepping as in Linux' intel-family.h and AMD's revision guides, implementer and part on ARM. For each stands
one socket with the median of what its published machines (`published_machines`) draw per socket: what they
idle at, which hardly depends on the cores, and what load adds, which grows slower than the cores. How well
that tells a machine that is not in the table is measured by `powermodels.evaluate.prior`, exponent included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from powermodels.common.interface import CpuIdentity, HostFacts
from powermodels.models.published_machines import MACHINES, Machine

INTEL, AMD, ARM = "GenuineIntel", "AuthenticAMD", "ARM"

CORES_EXPONENT = 0.65
# Published machines hold about this much per hardware thread (EPYC 7742: 1.0, 9654: 1.0, Platinum 8280L: 1.7,
# E5-2660: 0.75), so that much memory is in their watts already; the idle power of more is taken out.
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
    """Made for racks; otherwise of the desktop's kind, entry servers included."""
    vendor: str
    family: int
    models: frozenset[int]
    steppings: range = range(256)

    def holds(self, cpu: CpuIdentity) -> bool:
        """Whether a CPU is of this generation."""
        return (
            cpu.vendor == self.vendor
            and cpu.family == self.family
            and cpu.model in self.models
            and cpu.stepping in self.steppings
        )


@dataclass(frozen=True, slots=True)
class Match:
    """The socket to reckon with for a host, and whether it is of the host's own generation."""

    name: str
    machine: Machine
    known: bool


def _intel(name: str, models: set[int], *, server: bool, family: int = 6) -> Generation:
    return Generation(name, server, INTEL, family, frozenset(models))


def _amd(name: str, family: int, models: range, *, server: bool) -> Generation:
    return Generation(name, server, AMD, family, frozenset(models))


def _arm(name: str, parts: set[int], *, server: bool) -> Generation:
    return Generation(name, server, ARM, 0x41, frozenset(parts))


# The first row that holds a CPU is taken.
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
    # Broadwell's desktop kind with it.
    _intel("Intel Haswell desktop", {60, 61, 69, 70, 71}, server=False),
    _intel("Intel Haswell server", {63}, server=True),
    _intel("Intel Broadwell server", {79, 86}, server=True),
    _intel("Intel Skylake to Comet Lake desktop", {78, 94, 142, 158, 165, 166}, server=False),
    # Model 85 is Skylake, Cascade Lake and Cooper Lake, told apart by the stepping.
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

# More cores on one socket than any desktop CPU of these generations has.
_DESKTOP_CORES = 24


def match_machine(facts: HostFacts, machines: Mapping[str, Sequence[Machine]] = MACHINES) -> Match:
    """The socket of the host's generation, or a typical one of its vendor and kind."""
    if facts.cpu is not None:
        for generation in GENERATIONS:
            if generation.holds(facts.cpu) and machines[generation.name]:
                return Match(generation.name, _median_socket(machines[generation.name]), known=True)
    server = _looks_like_server(facts)
    kind = "server" if server else "desktop"
    of_kind = [g for g in GENERATIONS if g.server == server and machines[g.name]]
    of_vendor = [g for g in of_kind if facts.cpu is not None and g.vendor == facts.cpu.vendor]
    name = f"{facts.cpu.vendor} {kind}" if facts.cpu is not None and of_vendor else kind
    # A generation counts once, however many of its machines were published.
    sockets = [_median_socket(machines[generation.name]) for generation in of_vendor or of_kind]
    return Match(f"typical {name}", _median_socket(sockets), known=False)


def _looks_like_server(facts: HostFacts) -> bool:
    # A guest runs on somebody's server, however few cores of it are its own.
    return (
        facts.hypervisor is not None
        or facts.sockets > 1
        or facts.cores > _DESKTOP_CORES
        or any(word in facts.cpu_model for word in ("Xeon", "EPYC", "Opteron", "Neoverse", "Ampere"))
    )


def _median_socket(machines: Sequence[Machine]) -> Machine:
    """One socket with the median of everything."""
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
