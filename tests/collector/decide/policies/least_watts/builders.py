"""Nodes of 10 cores and tasks that were observed for a day, and the moves of a plan."""

from collections.abc import Iterable

from collector.decide.policies.actions import Move
from collector.decide.policies.interface import Plan
from collector.decide.policies.least_watts.plan import rebalance
from collector.decide.policies.least_watts.settings import LeastWattsSettings
from collector.snapshot.tables import Snapshot
from tests.collector.decide.policies.clusters import CURVE, amount
from tests.collector.snapshot.builders import NodeFacts, TaskFacts
from wire.messages import PowerCurve

DEFAULTS = LeastWattsSettings()


def make_node(
    name: str, *, curve: PowerCurve | None = CURVE, cores: float = 10, **facts: object
) -> NodeFacts:
    return NodeFacts(name=name, capacity=amount(cores, 16), curve=curve, **facts)  # type: ignore[arg-type]


def make_task(  # noqa: PLR0913 - a task's facts
    name: str,
    node: str,
    cores: float,
    *,
    deviation: float = 0.1,
    gibibytes: float = 0.1,
    service: str | None = None,
    windows: Iterable[float] = (),
) -> TaskFacts:
    used = amount(cores, gibibytes)
    return TaskFacts(
        id=name,
        node=node,
        used=used,
        mean=used,
        envelope=used,
        variance=(deviation**2, 0.0, 0.0, 0.0),
        observed_seconds=86_400.0,
        service=service,
        windows=[(each, 0.0, 0.0, 0.0) for each in windows],
    )


def moves_of(plan: Plan) -> list[tuple[str, str]]:
    return [(each.task, each.target) for each in plan.actions if isinstance(each, Move)]


def plan_moves(snapshot: Snapshot, settings: LeastWattsSettings = DEFAULTS) -> list[tuple[str, str]]:
    return moves_of(rebalance(snapshot, settings))
