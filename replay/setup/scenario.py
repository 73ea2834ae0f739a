"""The tables and keys of a scenario file: hosts, workload, policies, expected figures.

An unknown key is an error. A file with only hosts and simulation settings is a scenario too; the trace then
comes from the command line.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from collector.snapshot.tables import Generation
from replay.setup.elastic import ElasticService
from wire.errors import UserError, os_reason

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Patterns = Annotated[tuple[str, ...], Meta(min_length=1)]
MIPS_PER_CORE = 1000.0
"""Policies count CPU in cores. A core is a thousand MIPS or MHz."""
_FEWEST_WATTS = 2
_T = TypeVar("_T")
_OF_HOSTS_FILE = (
    *("hosts", "hosts_dataset", "interleave", "network"),
    *("startup", "machines", "control", "simulation"),
)
"""What a scenario takes from its `hosts_file`, besides policies, unless it has its own."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file, or settings of a generator: an unknown key is an error."""


class Host(Table, frozen=True, kw_only=True):
    """Hosts of one kind."""

    name: Annotated[str, Meta(min_length=1)]
    count: Annotated[int, Meta(ge=1, le=100_000)] = 1
    cpu_cores: Positive | None = None
    cpu_mips: Positive | None = None
    """Instead of `cpu_cores`: all cores together; 1000 are one core."""
    memory_mb: Positive
    disk_mb_per_second: Positive | None = None
    network_mb_per_second: Positive | None = None
    system_cores: NotNegative = 0.0
    """CPU usage of the host itself; the next key is its memory."""
    system_memory_mb: NotNegative = 0.0
    watts: Annotated[tuple[NotNegative, ...], Meta(min_length=_FEWEST_WATTS, max_length=101)]
    """Power of one host from idle to full CPU usage, at equal distances."""
    memory_watts: NotNegative = 0.0
    """Additional power at full memory usage; the next two keys are the same for disk and network."""
    disk_watts: NotNegative = 0.0
    network_watts: NotNegative = 0.0
    boot_seconds: NotNegative = 0.0
    boot_joules: NotNegative = 0.0
    on: bool = True
    """Whether it is on at the start."""
    generation: str = "any"
    domain: str | None = None
    region: str | None = None
    """The region of the host in `[network]`."""
    labels: dict[str, str] = {}

    def __post_init__(self) -> None:
        if (self.cpu_cores is None) == (self.cpu_mips is None):
            raise ValueError(f"host {self.name!r} needs cpu_cores or cpu_mips, and not both")
        if self.generation.upper() not in Generation.__members__:
            known = ", ".join(member.lower() for member in Generation.__members__)
            raise ValueError(f"generation of host {self.name!r} must be one of {known}")


class Network(Table, frozen=True, kw_only=True):
    """Round-trip times between hosts, by their regions."""

    inside_ms: NotNegative = 1.0
    """Between two hosts of a region; within a host it is 0."""
    round_trip_ms: dict[str, dict[str, NotNegative]] = {}
    """Between hosts of two regions; one direction is enough."""

    def between(self, one: str, other: str) -> float:
        """The round-trip time between hosts of two regions, in milliseconds."""
        if one == other:
            return self.inside_ms
        found = self.round_trip_ms.get(one, {}).get(other)
        found = self.round_trip_ms.get(other, {}).get(one) if found is None else found
        if found is None:
            raise UserError(f"[network.round_trip_ms] has no time between the regions {one} and {other}")
        return found


class Application(Table, frozen=True, kw_only=True):
    """Services that talk to each other. Results then contain the response time of its requests.

    A request goes from a caller to a server, each with the same probability. Its response time is the service
    time under the CPU that the server gets, and the round trips between their hosts.
    """

    name: Annotated[str, Meta(min_length=1)]
    services: Patterns = ("*",)
    """Patterns of the names of its services; the next two keys are patterns of callers and servers."""
    callers: Patterns = ("*",)
    servers: Patterns = ("*",)
    delay_max_ms: Positive | None = None
    """Maximum round-trip time between two hosts that it uses; None is no bound."""
    service_ms: NotNegative
    """Time that a server takes for a request if it gets all the CPU that it demands."""
    round_trips: NotNegative = 1.0
    """Round trips between caller and server, per request."""
    response_max_ms: Positive
    """Results contain the share of requests that take longer."""
    connections: Annotated[int, Meta(ge=1)] | None = None
    """Connections of each caller, spread over the servers. With them, results contain the operations per
    second if each connection sends a request as soon as the last one is answered; a server answers one at a
    time."""


class Machines(Table, frozen=True, kw_only=True):
    """The size of virtual machines, for a trace that contains only shares."""

    cpu_mips: Positive
    memory_mb: NotNegative
    labels: dict[str, str] = {}
    """Labels that its first host must have."""


class Simulation(Table, frozen=True, kw_only=True):
    """Settings of the simulation."""

    seed: int = 0
    decide_seconds: Positive = 300.0
    """Time between two runs of a policy's rebalancing."""
    sample_seconds: Positive | None = None
    """Sample interval of agents; by default that of the trace."""
    delay_seconds: NotNegative = 1.0
    """Time from a sample of the agents to the decision that uses it."""
    exact: bool = False
    """As in CloudSim: agents report every sample, and the demand of containers instead of their share; plans
    are carried out at once, without guards. For the papers' policies only."""
    admission: bool | None = None
    """Whether the collector's admission may refuse placements (`placement.risk_max`). By default only for the
    default policy, which runs as live; the others place containers as their papers and products do."""
    idle_is_off: bool = False
    """A host that is unused at the start of an interval draws nothing and counts as off, as in CloudSim."""
    zero_is_the_end: bool = False
    """A container that demands no CPU at an event has ended for good, as in CloudSim."""
    start_seconds: NotNegative = 0.0
    """The time in the trace at which the run starts: 0.1 s in CloudSim."""
    warm_up_seconds: NotNegative = 0.0
    """Energy before this time in the trace does not count."""
    when_full: Annotated[str, Meta(pattern="^(refuse|wait)$")] = "refuse"
    """What happens to a container that fits on no host."""
    patience_seconds: Positive | None = None
    """Maximum waiting time of a container, after which it counts as refused; by default unlimited."""
    mesh: bool = True
    """Whether the collector knows the round-trip times between hosts. If not, bounds of applications cannot
    be checked, as in a cluster that does not measure them."""
    out_of_memory: Annotated[str, Meta(pattern="^(count|kill)$")] = "count"
    """When a host has no memory left: only count the time, or kill all its containers."""
    migration_mb_per_second: Positive = 62.5
    """Network bandwidth of a move: by default half of a gigabit per second."""
    migration_use_ratio: Share = 1.0
    """Share of its usage that a container causes on the target while it still runs on the source."""


QUEUE_SIMULATION = Simulation(decide_seconds=30.0)
"""For requests on hosts without a scenario: as in the study of QoS-driven scheduling."""


class Startup(Table, frozen=True, kw_only=True):
    """How long containers of a workload with promises of availability take to start; they wait meanwhile."""

    same_host_seconds: Annotated[tuple[NotNegative, ...], Meta(min_length=1)] = (2.0, 3.0)
    """Start-up times on the host where a container last ran. One of them is drawn for each start. The
    defaults are the most frequent ones that were measured on Kubernetes 1.9."""
    other_host_seconds: Annotated[tuple[NotNegative, ...], Meta(min_length=1)] = (4.0, 5.0)
    same_host_dataset: str | None = None
    """A data set with measured start-up times, instead of the numbers."""
    other_host_dataset: str | None = None
    first: bool = False
    """Whether the first start of a container takes time too. In the study of QoS-driven scheduling it does
    not."""


class Trace(Table, frozen=True, kw_only=True):
    """The workload: a data set, a file in a known format, or a generator."""

    dataset: Annotated[str, Meta(min_length=1)] | None = None
    """The name of a data set: `wattpack data` lists them."""
    format: Annotated[str, Meta(min_length=1)] | None = None
    file: str | None = None
    """A file or folder, relative to the scenario."""
    learn: str | None = None
    """An earlier data set or file, reported before the run, as if the collector had been running."""
    generator: Annotated[str, Meta(min_length=1)] | None = None
    settings: dict[str, Any] = {}
    """Settings of the generator."""

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.dataset, self.file, self.generator)) != 1:
            raise ValueError("a trace needs a dataset, a file or a generator, and only one of them")
        if self.file is not None and self.format is None:
            raise ValueError("a trace from a file needs its format")


class Choice(Table, frozen=True, kw_only=True):
    """A policy with settings, under its own name."""

    policy: Annotated[str, Meta(min_length=1)]
    settings: dict[str, Any] = {}
    control: dict[str, Any] = {}
    """The collector's `[control]` for this policy (guards and budgets); other keys have their defaults."""
    collector: dict[str, Any] = {}
    """Other tables of the collector's settings, such as `envelopes`."""
    simulation: dict[str, Any] = {}
    """Settings for this policy that override `[simulation]`."""
    note: str = ""


class Figure(Table, frozen=True, kw_only=True):
    """A figure of a policy, and the bounds of ours."""

    policy: str
    figure: str
    """The name of the figure in the results, with dots for nested values: `utilisation_ratio.cpu`."""
    source: str = ""
    relative_to: str | None = None
    """Another policy: the figure is then the difference to it."""
    at_least: float | None = None
    """Lower bound of our figure."""
    at_most: float | None = None
    note: str = ""
    """The reason of a difference."""


class Expected(Figure, frozen=True, kw_only=True):
    """A figure of a paper or a peer, to compare with ours."""

    value: float | None = None
    """Their figure; None if only a bound is checked."""


class Scenario(Table, frozen=True, kw_only=True):
    """A scenario file."""

    title: str = ""
    about: str = ""
    hosts_file: str | None = None
    """Another file with hosts, machines, control and simulation."""
    hosts_dataset: Annotated[str, Meta(min_length=1)] | None = None
    """A data set with hosts, instead of `hosts`."""
    hosts_ratio: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Share of the hosts of `hosts_dataset` to use, drawn at random."""
    interleave: bool = False
    """Whether hosts of different kinds alternate, instead of one kind after the other."""
    hosts: tuple[Host, ...] = ()
    network: Network = Network()
    applications: tuple[Application, ...] = ()
    machines: tuple[Machines, ...] = ()
    """The machines of a trace are divided into as many blocks of equal size, in the order of the file."""
    trace: Trace | None = None
    elastic: ElasticService | None = None
    """A service whose replicas follow its load, instead of a trace of containers; for elasticity policies."""
    control: dict[str, Any] = {}
    """The collector's `[control]` for all policies (guards and budgets); other keys have their defaults."""
    simulation: Simulation = Simulation()
    startup: Startup = Startup()
    policies: dict[str, Choice] = {}
    run: tuple[str, ...] = ()
    """The policies to compare by default."""
    beside: tuple[str, ...] = ()
    """Those that differ by settings only, to publish beside each other: the one as shipped comes first."""
    expected: tuple[Expected, ...] = ()


def read_scenario(path: Path) -> Scenario:
    """Read a scenario from its file, and from its `hosts_file`."""
    tables = _read_tables(path)
    scenario = convert_table(tables, Scenario, str(path))
    if scenario.hosts_file is not None:
        if scenario.hosts or scenario.hosts_dataset:
            raise UserError(f"{path}: set only one of hosts, hosts_dataset and hosts_file")
        other = path.parent / scenario.hosts_file
        base = _read_tables(other)
        policies = {**convert_table(base, Scenario, str(other)).policies, **scenario.policies}
        inherited = {key: base[key] for key in _OF_HOSTS_FILE if key in base}
        scenario = msgspec.structs.replace(
            convert_table({**inherited, **tables}, Scenario, str(path)), policies=policies
        )
    if not scenario.hosts and scenario.hosts_dataset is None:
        raise UserError(f"{path} has no hosts: add a [[hosts]] table, hosts_dataset or hosts_file")
    return scenario


def parse_scenario(text: str, name: str) -> Scenario:
    """Parse a scenario from TOML; an error names its place."""
    return convert_table(_parse_tables(text, name), Scenario, name)


def convert_table(given: Any, kind: type[_T], what: str, *, strict: bool = True) -> _T:  # noqa: ANN401 - any table
    """Convert a table to its settings; an error begins with what the table is."""
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise UserError(f"{what}: {error}: docs/replay.md describes scenarios") from None


def _parse_tables(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{name} is not TOML: {error}") from None


def _read_tables(path: Path) -> dict[str, Any]:
    try:
        return _parse_tables(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UserError(f"cannot read the scenario {path} ({os_reason(error)}): check its path") from None
    except UnicodeDecodeError:
        raise UserError(f"the scenario {path} is not UTF-8 text: save it as UTF-8") from None
