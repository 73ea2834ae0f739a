"""Published idle and full-load watts of whole servers, by CPU generation: what the prior stands on.

Every row cites one SPECpower_ssj2008 result (spec.org/power_ssj2008/results): wall power of the machine
at active idle and at 100 % load. One ordinary machine stands for its generation. Generations are told by
the numbers a CPU gives of itself, since guests often hide the name: family, model and stepping as in
Linux' intel-family.h and AMD's revision guides, implementer and part on ARM.
"""

from dataclasses import dataclass, replace
from statistics import median

from powermodels.interface import CpuIdentity, HostFacts

INTEL, AMD, ARM = "GenuineIntel", "AuthenticAMD", "ARM"


@dataclass(frozen=True, slots=True)
class Machine:
    """What a published machine has, and what it drew at the wall."""

    sockets: int
    cores: int
    idle_watts: float
    max_watts: float
    source: str
    threads_per_core: int = 2

    @property
    def threads(self) -> int:
        return self.cores * self.threads_per_core

    @property
    def cores_per_socket(self) -> float:
        return self.cores / self.sockets

    @property
    def idle_watts_per_socket(self) -> float:
        return self.idle_watts / self.sockets

    @property
    def dynamic_watts_per_socket(self) -> float:
        return (self.max_watts - self.idle_watts) / self.sockets


@dataclass(frozen=True, slots=True)
class Generation:
    """CPUs of one design, and the machine that stands for them."""

    name: str
    server: bool
    """Made for racks; otherwise of the desktop's kind, entry servers included."""
    vendor: str
    family: int
    models: frozenset[int]
    machine: Machine
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
    """The machine to reckon with for a host, and whether it is of the host's own generation."""

    name: str
    machine: Machine
    known: bool


def _intel(name: str, models: set[int], machine: Machine, *, server: bool) -> Generation:
    return Generation(name, server, INTEL, 6, frozenset(models), machine)


def _amd(name: str, family: int, models: range, machine: Machine, *, server: bool) -> Generation:
    return Generation(name, server, AMD, family, frozenset(models), machine)


def _arm(name: str, parts: set[int], machine: Machine, *, server: bool) -> Generation:
    return Generation(name, server, ARM, 0x41, frozenset(parts), machine)


_SKYLAKE_SP = Machine(2, 48, 53.4, 387, "Sugon I620-G30, Xeon Platinum 8160, Aug 2018")
_CASCADE_LAKE_SP = Machine(2, 56, 62.4, 412, "ASUS RS720-E9-RS8, Xeon Platinum 8280L, Jul 2019")
_RAPHAEL = Machine(1, 16, 43.5, 112, "Supermicro AS-3015A-i, EPYC 4584PX, May 2024")
_A53_BOARDS = "XSLAB V-Raptor SQ, 384 Cortex-A53 cores, Dec 2021; reckoned as boards of four cores"

# The first row that holds a CPU is taken.
GENERATIONS: tuple[Generation, ...] = (
    _intel(
        "Intel Core 2 server",
        {15, 22},
        Machine(2, 8, 187, 260, "Fujitsu Siemens RX300 S3, Xeon L5335, Dec 2007", threads_per_core=1),
        server=True,
    ),
    _intel(
        "Intel Penryn server",
        {23, 29},
        Machine(2, 8, 147, 235, "Fujitsu RX300 S4, Xeon L5430, Mar 2009", threads_per_core=1),
        server=True,
    ),
    _intel(
        "Intel Nehalem server",
        {26, 46},
        Machine(2, 8, 88.4, 245, "HP DL360 G6, Xeon X5570, Apr 2009"),
        server=True,
    ),
    _intel(
        "Intel Nehalem desktop",
        {30, 31, 37},
        Machine(1, 4, 41.6, 113, "IBM x3250, Xeon X3470"),
        server=False,
    ),
    _intel(
        "Intel Westmere server",
        {44, 47},
        Machine(2, 12, 68.9, 250, "HP DL360 G6, Xeon X5670, Apr 2010"),
        server=True,
    ),
    _intel(
        "Intel Sandy Bridge desktop",
        {42},
        Machine(1, 4, 21.3, 102, "Acer AT110 F2, Xeon E3-1270, May 2011"),
        server=False,
    ),
    _intel(
        "Intel Sandy or Ivy Bridge server",
        {45, 62},
        Machine(2, 16, 72.4, 258, "Acer Altos R360 F2, Xeon E5-2660, Jul 2013"),
        server=True,
    ),
    _intel(
        "Intel Ivy Bridge desktop",
        {58},
        Machine(1, 4, 14.1, 72.5, "Fujitsu TX100 S3p, Xeon E3-1240 v2, Aug 2012"),
        server=False,
    ),
    _intel(
        "Intel Haswell desktop",
        {60, 69, 70, 61, 71},  # Broadwell's desktop kind with it
        Machine(1, 4, 17.7, 69.8, "Fujitsu RX100 S8, Xeon E3-1265L v3, Nov 2013"),
        server=False,
    ),
    _intel(
        "Intel Haswell server",
        {63},
        Machine(2, 36, 52.5, 264, "Sugon I620-G20, Xeon E5-2699 v3, Mar 2015"),
        server=True,
    ),
    _intel(
        "Intel Broadwell server",
        {79, 86},
        Machine(2, 44, 46.6, 247, "Quanta D51B-2U, Xeon E5-2699 v4, Jun 2016"),
        server=True,
    ),
    _intel(
        "Intel Skylake to Comet Lake desktop",
        {78, 94, 142, 158, 165, 166},
        Machine(1, 4, 14.4, 47.9, "Quanta S31A-1U, Xeon E3-1260L v5, Jun 2016"),
        server=False,
    ),
    # Model 85 is Skylake, Cascade Lake and Cooper Lake, told apart by the stepping.
    replace(_intel("Intel Skylake server", {85}, _SKYLAKE_SP, server=True), steppings=range(5)),
    _intel("Intel Cascade or Cooper Lake server", {85}, _CASCADE_LAKE_SP, server=True),
    _intel(
        "Intel Ice Lake server",
        {106, 108},
        Machine(2, 80, 110, 623, "ASUS RS720-E10, Xeon Platinum 8380, Jan 2022"),
        server=True,
    ),
    _intel(
        "Intel Ice Lake to Raptor Lake desktop",
        {125, 126, 140, 141, 151, 154, 167, 183, 186, 191},
        Machine(1, 8, 17.8, 99.6, "Fujitsu RX1330 M6, Xeon 6369P, Apr 2025"),
        server=False,
    ),
    _intel(
        "Intel Sapphire Rapids server",
        {143},
        Machine(2, 112, 147, 836, "xFusion 2288H V7, Xeon Platinum 8480+, Jan 2023"),
        server=True,
    ),
    _intel(
        "Intel Emerald Rapids server",
        {207},
        Machine(2, 128, 160, 827, "xFusion 2288H V7, Xeon Platinum 8592+, Mar 2025"),
        server=True,
    ),
    _intel(
        "Intel Granite Rapids server",
        {173, 174},
        Machine(2, 172, 205, 941, "HPE DL380a Gen12, Xeon 6787P, Feb 2025"),
        server=True,
    ),
    _intel(
        "Intel Sierra Forest server",
        {175},
        Machine(2, 288, 220, 801, "HPE DL380 Gen12, Xeon 6780E, Feb 2025", threads_per_core=1),
        server=True,
    ),
    _amd(
        "AMD Magny-Cours server",
        16,
        range(9, 10),
        Machine(2, 24, 101, 271, "HP DL385 G7, Opteron 6174, Apr 2010", threads_per_core=1),
        server=True,
    ),
    _amd(
        "AMD K10 server",
        16,
        range(9),
        Machine(2, 12, 124, 260, "HP DL385 G6, Opteron 2435, Aug 2009", threads_per_core=1),
        server=True,
    ),
    _amd(
        "AMD Bulldozer or Piledriver server",
        21,
        range(16),
        Machine(2, 32, 68.9, 308, "HP DL165 G7, Opteron 6276, Nov 2011", threads_per_core=1),
        server=True,
    ),
    _amd(
        "AMD EPYC, 1st generation",
        23,
        range(1, 2),
        Machine(2, 64, 94.9, 296, "Sugon A620-G30, EPYC 7601, Jul 2018"),
        server=True,
    ),
    _amd(
        "AMD EPYC, 2nd generation",
        23,
        range(49, 50),
        Machine(2, 128, 106, 430, "ASUS RS700A-E9-RS4V2, EPYC 7742, Apr 2020"),
        server=True,
    ),
    _amd(
        "AMD EPYC, 3rd generation",
        25,
        range(16),
        Machine(2, 128, 112, 515, "Gigabyte R282-Z90, EPYC 7773X, Aug 2022"),
        server=True,
    ),
    _amd(
        "AMD EPYC, 4th generation",
        25,
        range(16, 32),
        Machine(2, 192, 129, 692, "Quanta D44N-1U, EPYC 9654, Jan 2024"),
        server=True,
    ),
    _amd(
        "AMD EPYC, 4th generation, dense cores",
        25,
        range(160, 176),
        Machine(2, 256, 116, 668, "Quanta D44N-1U, EPYC 9754, May 2024"),
        server=True,
    ),
    _amd(
        "AMD EPYC, 5th generation",
        26,
        range(16),
        Machine(2, 256, 130, 931, "Quanta D44N-1U, EPYC 9755, Oct 2024"),
        server=True,
    ),
    _amd(
        "AMD EPYC, 5th generation, dense cores",
        26,
        range(16, 32),
        Machine(2, 384, 128, 834, "Quanta D44N-1U, EPYC 9965, Jul 2025"),
        server=True,
    ),
    _amd("AMD Zen 4 desktop", 25, range(96, 128), _RAPHAEL, server=False),
    _arm(
        "ARM Neoverse N1 server",
        {0xD0C},
        Machine(1, 128, 79, 268, "Gigabyte R152-P31, Ampere Altra Max M128-30, Jun 2023", threads_per_core=1),
        server=True,
    ),
    _arm(
        "ARM Neoverse V2 server",
        {0xD4F},
        Machine(
            2, 144, 298, 619, "Supermicro ARS-221GL-NR, Grace CPU Superchip, Jul 2024", threads_per_core=1
        ),
        server=True,
    ),
    _arm(
        "ARM Cortex-A board",
        {0xD03, 0xD04, 0xD05, 0xD07, 0xD08, 0xD09, 0xD0A, 0xD0B},
        Machine(96, 384, 206, 269, _A53_BOARDS, threads_per_core=1),
        server=False,
    ),
)

# More cores on one socket than any desktop CPU of these generations has.
_DESKTOP_CORES = 24


def match_machine(facts: HostFacts) -> Match:
    """The published machine of the host's generation, or a typical one of its vendor and kind."""
    if facts.cpu is not None:
        for generation in GENERATIONS:
            if generation.holds(facts.cpu):
                return Match(generation.name, generation.machine, known=True)
    server = _looks_like_server(facts)
    kind = "server" if server else "desktop"
    of_kind = [generation for generation in GENERATIONS if generation.server == server]
    of_vendor = [g for g in of_kind if facts.cpu is not None and g.vendor == facts.cpu.vendor]
    name = f"{facts.cpu.vendor} {kind}" if facts.cpu is not None and of_vendor else kind
    return Match(f"typical {name}", _typical([g.machine for g in of_vendor or of_kind]), known=False)


def _looks_like_server(facts: HostFacts) -> bool:
    # A guest runs on somebody's server, however few cores of it are its own.
    return (
        facts.hypervisor is not None
        or facts.sockets > 1
        or facts.cores > _DESKTOP_CORES
        or any(word in facts.cpu_model for word in ("Xeon", "EPYC", "Opteron", "Neoverse", "Ampere"))
    )


def _typical(machines: list[Machine]) -> Machine:
    """One socket with the median of everything."""
    idle_watts = median(machine.idle_watts_per_socket for machine in machines)
    dynamic_watts = median(machine.dynamic_watts_per_socket for machine in machines)
    cores = round(median(machine.cores_per_socket for machine in machines))
    threads_per_core = round(median(machine.threads_per_core for machine in machines))
    source = "the median of published ones"
    return Machine(1, cores, idle_watts, idle_watts + dynamic_watts, source, threads_per_core)
