"""Placement, the control loop, and the driver."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from collector.config.schedule import Schedule
from wire.settings import Section


class PlacementConfig(Section, frozen=True):
    """Defaults of placement hints and plans."""

    default_class: Annotated[int, Meta(ge=1, le=4)] = 1
    """Class of a container without the label `wattpack.class`: 1 is never cut, 4 tolerates twofold
    overbooking."""
    domain_label: str = "zone"
    """Node label that names the failure domain: a rack or a zone."""
    failure_half_life_hours: ClassVar[float] = 1.0
    """Age at which a container failure counts half."""
    snapshot_seconds: Annotated[float, Meta(ge=0, le=60)] = 1.0
    """Maximum age of the snapshot that a decision uses; five times as old while a newer one is being
    taken."""
    policy: str = "least-watts"
    """Policy of requests that do not name one. `GET /v1/policies` lists the policies."""
    risk_max: Annotated[float, Meta(gt=0, le=1)] = 0.05
    """Maximum probability that a node is short of a resource within five minutes if it gets the container;
    beyond it the node is refused. `least-watts` keeps its own margins: with it, a node is refused only if it
    was short more often than predicted. 1 admits all."""
    scheduled_seconds: ClassVar[float] = 30.0
    """After kube-scheduler asks about a pod, time that the pod counts as running on its best node, unless
    an agent reports it earlier. 0 does not count it."""


class ControlConfig(Section, frozen=True):
    """When plans are made and carried out. With the driver `none` they are only recorded."""

    policy: str = "draps"
    """Policy that responds to bottlenecks. Empty ignores them."""
    timer_policy: str = ""
    """Policy that runs every `timer_seconds`, such as `least-watts`, `energy4cloud` or `qos-driven`. Empty
    runs none: moves that save power restart containers, so they are asked for. Beside `least-watts`, `draps`
    leaves alerts about use to it."""
    check_seconds: Annotated[float, Meta(ge=0.1, le=3600)] = 5.0
    """Time between two checks for open bottlenecks. The orchestrator is queried at every third one."""
    timer_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """Time between two runs of `timer_policy`. 0 uses the policy's own: 30 s for `qos-driven`, 300 s for all
    others. `qos-driven` also runs at the next check after a task with a promise begins to wait, a node is
    added or a container ends."""
    verify_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """Time within which agents must report the effect of an action. After it, the action is undone."""
    settle_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """Time without further moves from or to a node after a move, so that the effect can show."""
    verdict_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    """Time after a decision at which its effect is measured and compared with its promise; measured again
    after 6 and 144 times as long: by default after ten minutes, an hour and a day."""
    stale_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Maximum age of a node's last report for any action on it."""
    max_concurrent_moves: Annotated[int, Meta(ge=-1, le=1000)] = -1
    """Maximum number of containers that move at the same time. -1: 1, or 1% of all containers if that is
    more."""
    max_moves_per_hour: Annotated[int, Meta(ge=-1, le=100_000)] = -1
    """Maximum number of moves within an hour. -1: 20, or 10% of all containers if that is more. The stops and
    starts of `qos-driven` do not count: it limits them itself."""
    cool_down_seconds: Annotated[float, Meta(ge=0, le=30 * 86_400)] = 600.0
    """Minimum time between two moves of the same service."""
    reservation_seconds: ClassVar[float] = 600.0
    """Time that room made for a container stays reserved until an agent reports the container. A request can
    set its own."""
    max_moving_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Maximum share of a service's replicas that move at the same time. At least one may move."""
    max_moving_memory_bytes: Annotated[int, Meta(ge=0, le=1 << 50)] = 16 << 30
    """Maximum total memory of the containers that move at the same time, since each must fill it again."""
    allowed_times: str = ""
    """Times at which actions are allowed, separated by commas, such as `mon-fri 22:00-06:00, sun`. Empty
    allows them always."""
    time_zone: str = "UTC"
    """Time zone of these times, such as Europe/Vienna."""
    opt_in: bool = False
    """Act only on services with the label `wattpack.act` = `allowed`."""
    lease_file: str = ""
    """SQLite file on a disk that all collectors of the cluster share. Only the collector that holds the lease
    in it acts. Empty uses a file next to the history; required with `history.store = "prometheus"`."""
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

    name: Literal["none", "swarm", "docker", "kubernetes"] = "none"
    """`none` only records what it would do. `swarm` uses a manager, `docker` the engine of each host (install
    wattpack[docker] for both), `kubernetes` the API server (install wattpack[kubernetes])."""
    managers: str = "unix:///var/run/docker.sock"
    """Addresses of Swarm managers, separated by commas, such as unix:///var/run/docker.sock or
    tcp://10.0.0.1:2376. If one does not answer, the next is used."""
    engines: dict[str, str] = field(default_factory=dict)
    """`[driver.engines]`: the engine of each host, such as web1 = "tcp://10.0.0.11:2376". `docker` needs all
    hosts, `swarm` only those whose containers may be cut."""
    certificates: str = ""
    """Folder with `ca.pem`, `cert.pem` and `key.pem` for tcp:// addresses, as Docker's DOCKER_CERT_PATH.
    Empty disables TLS."""
    kubeconfig: str = ""
    """Kubernetes configuration file. Empty uses the pod's service account, or else kubectl's default."""
    request_seconds: ClassVar[float] = 10.0
    """Timeout of one request."""
    healthy_seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """Time within which a started container must be healthy, or the move is undone."""
    stable_seconds: Annotated[float, Meta(ge=0, le=600)] = 5.0
    """Time that a started container must stay healthy before its move counts as done, and that a node stays
    empty before it is switched off."""
    power_off_command: str = ""
    """Command that switches a node off. Its last arguments are `--` and the node's name. Empty: no node is
    switched off."""
    power_on_command: str = ""
    """Command that switches a node on. Its last arguments are `--` and the node's name. Empty: no node is
    switched on."""
    power_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 300.0
    """Time within which a drained node must be empty, either command must end, and a node must be ready after
    `power_on_command`."""

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
