"""The driver of the demo: carries out actions in the simulated cluster, as an orchestrator would."""

import asyncio
from collections.abc import Callable, Collection, Mapping

import msgspec

from collector.drivers.interface import (
    ActionResult,
    DriverError,
    Hold,
    Mode,
    NodeView,
    OrchestratorState,
    ServiceView,
    TaskView,
)
from collector.policies.actions import Action, Cut, Kill, Move, describe
from wattpack.demo.cluster import DemoCluster
from wire.resources import Quantities

_MOVE_SECONDS = 2.0
"""Time that a new container takes to become healthy."""


class DemoDriver:
    """Moves containers of the demo cluster, and changes their limits."""

    name = "demo"
    dry = False
    has_queue = True

    def __init__(
        self, cluster: DemoCluster, clock: Callable[[], float], move_seconds: float = _MOVE_SECONDS
    ) -> None:
        self._cluster, self._clock, self._move_seconds = cluster, clock, move_seconds
        self._node_rows = {each.name: row for row, each in enumerate(cluster.shop.nodes)}

    async def view(self) -> OrchestratorState:
        shop, now = self._cluster.shop, self._clock()
        kinds = {each.service: each.kind for each in shop.containers}
        return OrchestratorState(
            nodes=tuple(
                NodeView(name=each.name, ready=self._cluster.is_up(row, now), labels={"zone": each.zone})
                for row, each in enumerate(shop.nodes)
            ),
            services=tuple(
                ServiceView(
                    name=name,
                    mode=Mode.REPLICATED,
                    replicas=replicas,
                    image=kinds[name].image,
                    labels=kinds[name].labels,
                    stays="it has a volume on its node" if kinds[name].is_pinned else None,
                )
                for name, replicas in shop.replicas.items()
            ),
            tasks=tuple(
                TaskView(
                    container=place.id,
                    service=container.service,
                    node=shop.nodes[place.node].name,
                    state="running",
                    reserve=self._cluster.limit_of(row),
                    task=f"{container.name}.{place.id[:8]}",
                    slot=str(container.slot),
                    created_at=place.started_at,
                    running_since=place.started_at,
                )
                for row, (container, place) in enumerate(
                    zip(shop.containers, self._cluster.places(), strict=True)
                )
            ),
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
        raise DriverError(f"the demo cannot {describe(action)}")

    async def undo(self, action: Action, done: ActionResult) -> None:
        match action:
            case Move(node=source) | Kill(node=source):
                for container in done.containers:
                    self._cluster.move(self._row(container), self._node_rows[source], self._clock())
            case Cut(task=task):
                self._cluster.limit(self._row(task), msgspec.json.decode(done.before, type=Quantities))
            case _:
                pass

    async def release(self, *, keep_parked: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - nothing is parked
        return ()

    async def hold_back(self, tasks: Collection[str]) -> tuple[str, ...]:  # noqa: ARG002 - nothing is pending
        return ()

    async def hold(self, replicas: Mapping[str, int]) -> Hold:
        raise DriverError(f"{sum(replicas.values())} replicas are not deployed: the demo creates no services")

    def _row(self, task: str) -> int:
        for row, place in enumerate(self._cluster.places()):
            if place.id == task:
                return row
        raise DriverError(f"container {task[:12]} no longer runs")
