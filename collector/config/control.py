"""Placement, the control loop, and the driver."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from collector.config.schedule import Schedule
from wire.settings import Section


class PlacementConfig(Section, frozen=True):
    """Defaults of placement hints and plans."""

    default_class: Annotated[
        int,
        Meta(
            ge=1,
            le=4,
            description="Class of a container without the label `wattpack.class`: 1 is never cut, 4 tolerates"
            " twofold overbooking.",
        ),
    ] = 1
    domain_label: Annotated[
        str,
        Meta(description="Node label that names the failure domain: a rack or a zone."),
    ] = "zone"
    failure_half_life_hours: ClassVar[float] = 1.0
    """Age at which a container failure counts half."""
    snapshot_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="Maximum age of the snapshot that a decision uses; five times as old while a newer"
            " one is being taken.",
        ),
    ] = 1.0
    policy: Annotated[
        str,
        Meta(description="Policy of requests that do not name one. `GET /v1/policies` lists the policies."),
    ] = "least-watts"
    risk_max: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Maximum probability that a node is short of a resource within five minutes if it"
            " gets the container; beyond it the node is refused. `least-watts` keeps its own margins: with"
            " it, a node is refused only if it was short more often than predicted. 1 admits all.",
        ),
    ] = 0.05
    scheduled_seconds: ClassVar[float] = 30.0
    """After kube-scheduler asks about a pod, time that the pod counts as running on its best node, unless
    an agent reports it earlier. 0 does not count it."""


class ControlConfig(Section, frozen=True):
    """When plans are made and carried out. With the driver `none` they are only recorded."""

    policy: Annotated[str, Meta(description="Policy that responds to bottlenecks. Empty ignores them.")] = (
        "draps"
    )
    timer_policy: Annotated[
        str,
        Meta(
            description="Policy that runs every `timer_seconds`, such as `least-watts`, `energy4cloud` or"
            " `qos-driven`. Empty runs none."
        ),
    ] = ""
    check_seconds: Annotated[
        float,
        Meta(
            ge=0.1,
            le=3600,
            description="Time between two checks for open bottlenecks. The orchestrator is queried at every"
            " third one.",
        ),
    ] = 5.0
    timer_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Time between two runs of `timer_policy`. 0 uses the policy's own: 30 s for"
            " `qos-driven`, 300 s for all others. `qos-driven` also runs at the next check after a task with"
            " a promise begins to wait, a node is added or a container ends.",
        ),
    ] = 0.0
    verify_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=3600,
            description="Time within which agents must report the effect of an action. After it, the action"
            " is undone.",
        ),
    ] = 60.0
    settle_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="Time without further moves from or to a node after a move, so that the effect can"
            " show.",
        ),
    ] = 60.0
    stale_seconds: Annotated[
        float,
        Meta(gt=0, le=3600, description="Maximum age of a node's last report for any action on it."),
    ] = 60.0
    max_concurrent_moves: Annotated[
        int,
        Meta(
            ge=-1,
            le=1000,
            description="Maximum number of containers that move at the same time. -1: 1, or 1% of all"
            " containers if that is more.",
        ),
    ] = -1
    max_moves_per_hour: Annotated[
        int,
        Meta(
            ge=-1,
            le=100_000,
            description="Maximum number of moves within an hour. -1: 20, or 10% of all containers if that is"
            " more. The stops and starts of `qos-driven` do not count: it limits them itself.",
        ),
    ] = -1
    cool_down_seconds: Annotated[
        float,
        Meta(ge=0, le=30 * 86_400, description="Minimum time between two moves of the same service."),
    ] = 600.0
    reservation_seconds: ClassVar[float] = 600.0
    """Time that room made for a container stays reserved until an agent reports the container. A request can
    set its own."""
    max_moving_ratio: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Maximum share of a service's replicas that move at the same time. At least one may"
            " move.",
        ),
    ] = 0.5
    max_moving_memory_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=1 << 50,
            description="Maximum total memory of the containers that move at the same time, since each must"
            " fill it again.",
        ),
    ] = 16 << 30
    allowed_times: Annotated[
        str,
        Meta(
            description="Times at which actions are allowed, separated by commas, such as"
            " `mon-fri 22:00-06:00, sun`. Empty allows them always."
        ),
    ] = ""
    time_zone: Annotated[str, Meta(description="Time zone of these times, such as Europe/Vienna.")] = "UTC"
    opt_in: Annotated[
        bool,
        Meta(description="Act only on services with the label `wattpack.act` = `allowed`."),
    ] = False
    lease_file: Annotated[
        str,
        Meta(
            description="SQLite file on a disk that all collectors of the cluster share. Only the collector"
            " that holds the lease in it acts. Empty uses a file next to the history; required with"
            ' `history.store = "prometheus"`.'
        ),
    ] = ""
    lease_seconds: ClassVar[float] = 30.0
    """Time without renewal after which the lease is lost."""
    keep_decisions: ClassVar[int] = 1000
    """Number of decisions kept in the journal."""

    def __post_init__(self) -> None:
        self.schedule()

    def schedule(self) -> Schedule:
        return Schedule.of(self.allowed_times, self.time_zone)

    def concurrent_moves(self, containers: int) -> int:
        """Return how many containers may move at the same time in a cluster with this many."""
        most = self.max_concurrent_moves
        return max(1, int(0.01 * containers)) if most < 0 else most

    def hourly_moves(self, containers: int) -> int:
        """Return how many moves are allowed within an hour in a cluster with this many containers."""
        most = self.max_moves_per_hour
        return max(20, int(0.1 * containers)) if most < 0 else most


class DriverConfig(Section, frozen=True):
    """The orchestrator that carries out actions, and its timeouts."""

    name: Annotated[
        Literal["none", "swarm", "docker", "kubernetes"],
        Meta(
            description="`none` only records what it would do. `swarm` uses a manager, `docker` the engine of"
            " each host (install wattpack[docker] for both), `kubernetes` the API server (install"
            " wattpack[kubernetes])."
        ),
    ] = "none"
    managers: Annotated[
        str,
        Meta(
            description="Addresses of Swarm managers, separated by commas, such as"
            " unix:///var/run/docker.sock or tcp://10.0.0.1:2376. If one does not answer, the next is used."
        ),
    ] = "unix:///var/run/docker.sock"
    engines: Annotated[
        dict[str, str],
        Meta(
            description='`[driver.engines]`: the engine of each host, such as web1 = "tcp://10.0.0.11:2376".'
            " `docker` needs all hosts, `swarm` only those whose containers may be cut."
        ),
    ] = field(default_factory=dict)
    certificates: Annotated[
        str,
        Meta(
            description="Folder with `ca.pem`, `cert.pem` and `key.pem` for tcp:// addresses, as Docker's"
            " DOCKER_CERT_PATH. Empty disables TLS."
        ),
    ] = ""
    kubeconfig: Annotated[
        str,
        Meta(
            description="Kubernetes configuration file. Empty uses the pod's service account, or else"
            " kubectl's default."
        ),
    ] = ""
    request_seconds: ClassVar[float] = 10.0
    """Timeout of one request."""
    healthy_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=3600,
            description="Time within which a started container must be healthy, or the move is undone.",
        ),
    ] = 60.0
    stable_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=600,
            description="Time that a started container must stay healthy before its move counts as done, and"
            " that a node stays empty before it is switched off.",
        ),
    ] = 5.0
    power_off_command: Annotated[
        str,
        Meta(
            description="Command that switches a node off. Its last arguments are `--` and the node's name."
            " Empty: no node is switched off."
        ),
    ] = ""
    power_on_command: Annotated[
        str,
        Meta(
            description="Command that switches a node on. Its last arguments are `--` and the node's name."
            " Empty: no node is switched on."
        ),
    ] = ""
    power_seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=86_400,
            description="Time within which a drained node must be empty, either command must end, and a node"
            " must be ready after `power_on_command`.",
        ),
    ] = 300.0

    @property
    def spans_nodes(self) -> bool:
        """Whether one orchestrator runs the containers of all nodes, so that it lists them reliably."""
        return self.name in {"swarm", "kubernetes"}

    @property
    def places_tasks(self) -> bool:
        """Whether the collector chooses the nodes of new tasks; in Kubernetes, kube-scheduler does."""
        return self.name != "kubernetes"

    @property
    def manager_addresses(self) -> tuple[str, ...]:
        return tuple(address for each in self.managers.split(",") if (address := each.strip()))
