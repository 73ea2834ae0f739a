"""The driver of the demo: carries out actions in the simulated cluster, as an orchestrator would."""

import asyncio
from collections.abc import Callable

import msgspec

from collector.act.drivers.interface import ActionResult, Driver, DriverError
from collector.common.orchestrator import Mode, NodeView, OrchestratorState, ServiceView, TaskView
from collector.common.text import counted
from collector.decide.policies.actions import Action, Cut, Kill, Move, Scale, describe
from wattpack.demo.cluster import DemoCluster
from wattpack.demo.tables import ShopService
from wire.resources import Quantities

_MOVE_SECONDS = 2.0
"""Time that a new container takes to become healthy."""


class DemoDriver(Driver):
    """Moves containers of the demo cluster, changes their limits, and scales services."""

    name = "demo"
    dry = False
    has_queue = True

    def __init__(
        self, cluster: DemoCluster, clock: Callable[[], float], move_seconds: float = _MOVE_SECONDS
    ) -> None:
        self._cluster, self._clock, self._move_seconds = cluster, clock, move_seconds
        self._node_rows = {each.name: row for row, each in enumerate(cluster.shop.nodes)}
        self._stopped: dict[str, int] = {}
        """Replicas of the services that were stopped because resources were short."""

    async def view(self) -> OrchestratorState:
        shop, now = self._cluster.shop, self._clock()
        return OrchestratorState(
            nodes=tuple(
                NodeView(name=each.name, ready=self._cluster.is_up(row, now), labels={"zone": each.zone})
                for row, each in enumerate(shop.nodes)
            ),
            services=tuple(
                self._service_view(name, shop.containers[rows[0]].kind, rows)
                for name, rows in shop.rows.items()
            ),
            tasks=tuple(
                TaskView(
                    container=place.id,
                    service=shop.containers[row].service,
                    node=shop.nodes[place.node].name,
                    state="running",
                    reserve=self._cluster.limit_of(row),
                    id=f"{shop.containers[row].name}.{place.id[:8]}",
                    slot=str(shop.containers[row].slot),
                    created_at=place.started_at,
                    running_since=place.started_at,
                )
                for row, place in self._cluster.places().items()
            ),
        )

    def _service_view(self, name: str, kind: ShopService, rows: list[int]) -> ServiceView:
        limit = self._cluster.limit_of(rows[0]) if kind.replicas_max else Quantities()
        return ServiceView(
            name=name,
            mode=Mode.REPLICATED,
            replicas=self._cluster.replicas_of(name),
            reserve=limit,
            limit=limit,
            image=kind.image,
            labels=kind.labels,
            stays="it has a volume on its node" if kind.is_pinned else None,
            stopped_replicas=self._stopped.get(name, 0),
        )

    async def carry_out(self, action: Action) -> ActionResult:
        match action:
            case Move(task=task, target=target) | Kill(task=task, target=str(target)):
                await asyncio.sleep(self._move_seconds)
                new = self._cluster.move(self._row(task), self._node_rows[target], self._clock())
                return ActionResult(what=f"started {new[:12]} on {target}", before=b"{}", containers=(new,))
            case Cut(task=task, allocated=allocated):
                row = self._row(task)
                before = msgspec.json.encode(self._cluster.limit_of(row))
                self._cluster.limit(row, allocated)
                return ActionResult(what="changed its limits", before=before)
            case Scale():
                return await self._scale(action)
        raise DriverError(f"the demo cannot {describe(action)}")

    async def undo(self, action: Action, done: ActionResult) -> None:
        match action:
            case Move(node=source) | Kill(node=source):
                for container in done.containers:
                    self._cluster.move(self._row(container), self._node_rows[source], self._clock())
            case Cut(task=task):
                self._cluster.limit(self._row(task), msgspec.json.decode(done.before, type=Quantities))
            case Scale(service=service, replicas=replicas, replicas_before=before):
                # Unless someone changed it since.
                if self._cluster.replicas_of(service) == replicas:
                    self._set_replicas(action, before, replicas)
            case _:
                pass

    async def _scale(self, action: Scale) -> ActionResult:
        most = len(self._cluster.shop.rows.get(action.service, ()))
        if action.replicas > most:
            raise DriverError(f"the demo has {counted(most, 'container')} of {action.service} at most")
        before = self._cluster.replicas_of(action.service)
        known = {place.id for place in self._cluster.places().values()}
        await asyncio.sleep(0.0 if before == action.replicas else self._move_seconds)
        containers = self._set_replicas(action, action.replicas, before)
        names = [each.name for each in self._cluster.shop.nodes]
        new = sorted(
            {
                names[each.node]
                for each in self._cluster.places().values()
                if each.id in set(containers) - known
            }
        )
        what = f"scaled {action.service} from {before} to {action.replicas} replicas"
        return ActionResult(
            what=f"{what}, on {', '.join(new)}" if new else what,
            containers=containers,
            nothing_to_do=before == action.replicas,
        )

    def _set_replicas(self, action: Scale, replicas: int, before: int) -> tuple[str, ...]:
        """Scale a service, and note whether it is stopped because resources are short."""
        if action.sheds:
            self._stopped.pop(action.service, None)
            if not replicas:
                self._stopped[action.service] = before
        nodes = [self._node_rows[name] for name in action.nodes]
        return self._cluster.scale(action.service, replicas, nodes, self._clock())

    def _row(self, task: str) -> int:
        for row, place in self._cluster.places().items():
            if place.id == task:
                return row
        raise DriverError(f"container {task[:12]} no longer runs")
