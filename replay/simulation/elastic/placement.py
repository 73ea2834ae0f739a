"""Where the replicas of an elastic service run, if a policy places them."""

from collections.abc import Sequence

from collector.common.applications import ApplicationTraits
from collector.config import CollectorConfig
from collector.decide.policies.interface import Request
from collector.decide.policies.resolve import PolicyChoice, find_policy, with_settings
from collector.features.network.applications.in_turn import place_application
from collector.features.network.mesh.delays import Delays
from collector.observe.registry import Registry
from collector.snapshot.pending import with_pending
from collector.snapshot.tables import Snapshot
from replay.contenders.table import POLICIES
from replay.setup.elastic import MILLI, ElasticService
from replay.setup.hosts import Hosts
from wire.errors import UserError
from wire.messages import NodeState, Report
from wire.resources import Quantities


class Placement:
    """Places replicas by a policy. Replicas that stay count with their CPU limit."""

    def __init__(self, policy: str, service: ElasticService, hosts: Hosts, *, mesh: bool) -> None:
        self._choice: PolicyChoice = with_settings(find_policy(policy, "place", policies=POLICIES), {})
        self._service, self._names = service, hosts.names
        bound = service.delay_max_ms if mesh else None
        self._application = ApplicationTraits(service.service, *(() if bound is None else (bound / MILLI,)))
        self._snapshot = _empty_cluster(hosts)
        if mesh and hosts.round_trip_seconds is not None:
            self._snapshot = self._snapshot.with_part(Delays.of_matrix(hosts.round_trip_seconds))

    def place(self, kept: Sequence[int], count: int, limit_cores: float) -> list[int]:
        """The hosts of new replicas beside those that stay."""
        amount = Quantities(cpu_cores=limit_cores, memory_bytes=0)
        request = Request(
            service=self._service.service,
            reserve=amount,
            demand=amount,
            application=self._application,
        )
        pending = [request.pending_on(self._names[row]) for row in kept]
        snapshot = with_pending(self._snapshot, pending, self._snapshot.turn + 1)
        placed = place_application(snapshot, [request] * count, self._choice)
        if not placed.nodes:
            raise UserError(f"{self._choice.policy.name} places no replica: {placed.why_not}")
        return [self._names.index(name) for name in placed.nodes]


def _empty_cluster(hosts: Hosts) -> Snapshot:
    registry = Registry(CollectorConfig())
    for row, node in enumerate(hosts.names):
        used, capacity = (
            Quantities(cpu_cores=float(cores), memory_bytes=int(memory))
            for cores, memory, *_ in (hosts.system[row], hosts.capacity[row])
        )
        state = NodeState(used=used, capacity=capacity)
        registry.apply(Report(node=node, boot="replay", sequence=1, at=0.0, state=state), 0.0)
    return registry.tables.snapshot(0.0)
