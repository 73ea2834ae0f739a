"""The words of a scenario file: what there is, what runs on it, and what is asked.

Strict: a key that is not known is a mistake that is named. A file that only tells the hosts and how they are
simulated is a scenario too; the trace then comes from the command line.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from collector.snapshot.tables import Generation
from wire.errors import UserError

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
MIPS_PER_CORE = 1000.0
"""Policies count CPU in cores. Where a set-up counts it in MIPS or MHz, a core is a thousand of them."""
_FEWEST_WATTS = 2


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""


class Host(_Table, frozen=True, kw_only=True):
    """Hosts of one kind."""

    name: Annotated[str, Meta(min_length=1)]
    count: Annotated[int, Meta(ge=1, le=100_000)] = 1
    cpu_cores: Positive | None = None
    cpu_mips: Positive | None = None
    """Instead of `cpu_cores`: all cores together, a thousand being one core."""
    memory_mb: Positive
    disk_mb_per_second: Positive | None = None
    network_mb_per_second: Positive | None = None
    system_cores: NotNegative = 0.0
    """What the host itself uses, whatever runs on it; so does the next."""
    system_memory_mb: NotNegative = 0.0
    watts: Annotated[tuple[NotNegative, ...], Meta(min_length=_FEWEST_WATTS, max_length=101)]
    """What one draws from idle to full use of its CPU, at points that lie equally far apart."""
    memory_watts: NotNegative = 0.0
    """What full use of its memory adds; so do the next two."""
    disk_watts: NotNegative = 0.0
    network_watts: NotNegative = 0.0
    boot_seconds: NotNegative = 0.0
    boot_joules: NotNegative = 0.0
    on: bool = True
    """Whether it has power at the beginning."""
    generation: str = "any"
    domain: str | None = None
    labels: dict[str, str] = {}

    def __post_init__(self) -> None:
        if (self.cpu_cores is None) == (self.cpu_mips is None):
            raise ValueError(f"host {self.name!r} needs cpu_cores or cpu_mips, and not both")
        if self.generation.upper() not in Generation.__members__:
            known = ", ".join(member.lower() for member in Generation.__members__)
            raise ValueError(f"generation of host {self.name!r} must be one of {known}")


class Machines(_Table, frozen=True, kw_only=True):
    """How large the virtual machines of a trace are that tells only shares of a machine."""

    cpu_mips: Positive
    memory_mb: NotNegative
    labels: dict[str, str] = {}
    """What the host that it is first put on must carry."""


class Simulation(_Table, frozen=True, kw_only=True):
    """What holds for the whole run."""

    seed: int = 0
    decide_seconds: Positive = 300.0
    """How often a policy is asked what should be elsewhere."""
    sample_seconds: Positive | None = None
    """How often agents sample; without it, as often as the trace has values."""
    delay_seconds: NotNegative = 1.0
    """From a sample of the agents to the decision that uses it."""
    exact: bool = False
    """As in CloudSim: agents report every sample, and what containers want instead of what they get; plans
    are carried out at once, without guards. For the papers' policies only."""
    idle_is_off: bool = False
    """A host that begins an interval unused draws nothing in it and is not counted as on, as in CloudSim."""
    zero_is_the_end: bool = False
    """A container that wants no CPU at an event has ended and does not come back, as in CloudSim."""
    start_seconds: NotNegative = 0.0
    """The moment of the trace at which the run begins: a tenth of a second in CloudSim."""
    warm_up_seconds: NotNegative = 0.0
    """What is drawn before this moment of the trace is not counted."""
    when_full: Annotated[str, Meta(pattern="^(refuse|wait)$")] = "refuse"
    """What becomes of a container that no host has room for."""
    patience_seconds: Positive | None = None
    """How long one waits at most, before it counts as refused; without it, to the end."""
    out_of_memory: Annotated[str, Meta(pattern="^(count|kill)$")] = "count"
    """Whether all containers of a host die when it has no memory left, or the time is only counted."""
    migration_mb_per_second: Positive = 62.5
    """What a move has of the network: half of a gigabit per second."""
    migration_use_ratio: Share = 1.0
    """How much of its use a container causes at its target while it still runs at its source."""


class Trace(_Table, frozen=True, kw_only=True):
    """Where the containers come from: a data set, a file in a known format, or a generator."""

    dataset: Annotated[str, Meta(min_length=1)] | None = None
    """The name of a data set: `wattpack data` lists them."""
    format: Annotated[str, Meta(min_length=1)] | None = None
    file: str | None = None
    """A file, or a folder, from where the scenario stands."""
    learn: str | None = None
    """A data set, or a file, of an earlier time: what a collector that has been running would know."""
    generator: Annotated[str, Meta(min_length=1)] | None = None
    settings: dict[str, Any] = {}
    """Of the generator."""

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.dataset, self.file, self.generator)) != 1:
            raise ValueError("a trace needs a dataset, a file or a generator, and only one of them")
        if self.file is not None and self.format is None:
            raise ValueError("a trace from a file needs its format")


class Choice(_Table, frozen=True, kw_only=True):
    """A policy under a name of its own."""

    policy: Annotated[str, Meta(min_length=1)]
    settings: dict[str, Any] = {}
    control: dict[str, Any] = {}
    """The collector's `[control]` for this policy: its guards and budgets. The rest has the defaults."""
    collector: dict[str, Any] = {}
    """Other tables of the collector's settings, such as `envelopes`."""
    simulation: dict[str, Any] = {}
    """What holds for this policy instead of what `[simulation]` says."""
    note: str = ""


class Expected(_Table, frozen=True, kw_only=True):
    """What a paper or a peer has for the same, to be shown beside."""

    policy: str
    figure: str
    """Its name among the results, with dots where it lies deeper: `utilisation_ratio.cpu`."""
    value: float | None = None
    """What they have; nothing where only a bound is kept."""
    source: str = ""
    relative_to: str | None = None
    """Another policy: the figure is then how much more or less this one has."""
    at_least: float | None = None
    """What ours must be."""
    at_most: float | None = None
    note: str = ""
    """What explains a difference."""


class Scenario(_Table, frozen=True, kw_only=True):
    """A whole file."""

    title: str = ""
    about: str = ""
    hosts_file: str | None = None
    """Another file to take hosts, machines, control and simulation from."""
    interleave: bool = False
    """Whether kinds of hosts take turns, instead of standing one kind after the other."""
    hosts: tuple[Host, ...] = ()
    machines: tuple[Machines, ...] = ()
    """The machines of a trace come in as many blocks of equal size, in the order of the file."""
    trace: Trace | None = None
    control: dict[str, Any] = {}
    """The collector's `[control]` for all policies: guards and budgets. The rest has the defaults."""
    simulation: Simulation = Simulation()
    policies: dict[str, Choice] = {}
    run: tuple[str, ...] = ()
    """The policies that are compared when nobody names any."""
    expected: tuple[Expected, ...] = ()


def read_scenario(path: Path) -> Scenario:
    """A scenario from its file, with what it takes from another."""
    scenario = parse_scenario(_text(path), str(path))
    if scenario.hosts_file is not None:
        other = path.parent / scenario.hosts_file
        below = parse_scenario(_text(other), str(other))
        if scenario.hosts:
            raise UserError(f"{path}: give hosts, or a hosts_file, and not both")
        scenario = msgspec.structs.replace(
            scenario,
            hosts=below.hosts,
            interleave=below.interleave,
            machines=scenario.machines or below.machines,
            control=scenario.control or below.control,
            simulation=_either(scenario.simulation, below.simulation),
            policies={**below.policies, **scenario.policies},
        )
    if not scenario.hosts:
        raise UserError(f"{path} has no hosts: add a [[hosts]] table, or hosts_file")
    return scenario


def parse_scenario(text: str, name: str) -> Scenario:
    """A scenario from TOML; a mistake is named with its place."""
    try:
        return msgspec.convert(tomllib.loads(text), Scenario)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{name} is not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise UserError(f"{name}: {error}: docs/replay.md tells what a scenario has") from None


def _either(above: Any, below: Any) -> Any:  # noqa: ANN401 - both are of one table's type
    return below if above == type(above)() else above


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the scenario {path}: {error}") from None
