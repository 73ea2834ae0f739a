"""The input of guards for tests."""

from dataclasses import replace
from typing import Any

from collector.act.guards import GuardContext
from collector.common.orchestrator import NodeView, OrchestratorState, ServiceView, TaskView
from collector.config import ControlConfig
from collector.config.schedule import Schedule
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import Quantities

NOW = 1_800_000_000.0
NODE = NodeFacts(name="alpha", capacity=Quantities(4.0, 1000))
_ALWAYS = Schedule.of("", "UTC")


def guard_context(
    *, nodes: dict[str, Any] | None = None, settings: ControlConfig | None = None, **changes: Any
) -> GuardContext:
    """Return a context in which no guard refuses, with these changes."""
    nodes = nodes or {}
    context = GuardContext(
        now=NOW,
        settings=settings or ControlConfig(),
        schedule=_ALWAYS,
        snapshot=assemble(
            [replace(NODE, name=name, **nodes.get(name, {})) for name in ("alpha", "beta", "gamma")],
            [TaskFacts(id="web1", node="alpha", service="web")],
        ),
        view=OrchestratorState(
            nodes=tuple(NodeView(name=name) for name in ("alpha", "beta", "gamma")),
            services=(ServiceView(name="web", replicas=2),),
            tasks=(TaskView(container="web1", service="web", node="alpha", state="running"),),
        ),
    )
    return replace(context, **changes)
