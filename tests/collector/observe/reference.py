"""The reference for snapshots: built from the registry, without the live tables."""

from collections import Counter
from dataclasses import fields
from math import nan

import numpy as np

from collector.analysis.usage import to_quantities
from collector.config import CollectorConfig
from collector.observe.agent_run import AgentRun
from collector.observe.node_columns import busy_ratios
from collector.observe.registry import Registry
from collector.observe.task_columns import promised_limits
from collector.observe.traits import node_traits, task_traits
from collector.snapshot.columns import Four, four
from collector.snapshot.tables import Snapshot
from tests.collector.snapshot.builders import NodeFacts, TaskFacts, assemble
from wire.resources import RESOURCES, Quantities


def _busy(run: AgentRun) -> Four:
    if run.state is None:
        return nan, nan, nan, nan
    cpu, memory, disk, network = (nan if each is None else each for each in busy_ratios(run.state.value))
    return cpu, memory, disk, network


def reference_snapshot(registry: Registry, config: CollectorConfig, now: float) -> Snapshot:
    """The snapshot of a registry without envelopes and allocations."""
    claims = Counter(name for entry in registry._entries.values() for name in entry.run.containers)
    nodes, tasks = [], []
    for name, entry in registry._entries.items():
        run = entry.run
        traits = node_traits(name, config.nodes, {})
        short = {
            each.alert.resource: each.alert.container or ""
            for each, is_open in entry.alerts.listed(run.boot, run.complete_until)
            if is_open
        }
        learned = () if run.state is None else run.state.value.learned_capacities
        guessed = [resource in learned for resource in RESOURCES]
        cpu, memory, disk, network = (resource in short for resource in RESOURCES)
        named = [short.get(resource, "") for resource in RESOURCES]
        culprits = [
            "" if each not in run.containers else each if claims[each] == 1 else f"{name}/{each}"
            for each in named
        ]
        nodes.append(
            NodeFacts(
                name=name,
                capacity=Quantities() if run.state is None else run.state.value.capacity,
                learned=(guessed[0], guessed[1], guessed[2], guessed[3]),
                used=Quantities() if run.state is None else run.state.value.used,
                reported_watts=nan
                if run.state is None or run.state.value.power is None
                else run.state.value.power.watts,
                liveness=registry._liveness(entry, now),
                accepts=traits.accepts,
                report_age_seconds=now - entry.last_report_at,
                generation=traits.generation,
                busy=_busy(run),
                bottleneck=(cpu, memory, disk, network),
                culprits=(culprits[0], culprits[1], culprits[2], culprits[3]),
                by_time=(False, False, disk, False),
                domain=traits.labels.get(config.placement.domain_label),
                curve=None if run.heartbeat is None else run.heartbeat.value.power_curve,
                labels=traits.labels,
            )
        )
        for container, reported in run.containers.items():
            state = reported.value
            task_class, kind, movable = task_traits(state.labels, config.placement.default_class)
            limits = promised_limits(state, four(nodes[-1].capacity))
            tasks.append(
                TaskFacts(
                    id=container if claims[container] == 1 else f"{name}/{container}",
                    node=name,
                    name=state.name,
                    service=state.service,
                    used=state.used,
                    requested=to_quantities([nan if each is None else each for each in limits]),
                    task_class=task_class,
                    kind=kind,
                    movable=movable,
                )
            )
    return assemble(nodes, tasks, at=now)


TIME_DEPENDENT = frozenset({"history", "windows", "failures", "age_seconds", "settled_seconds"})
"""Columns that depend on the times of reports."""


def assert_same(one: Snapshot, other: Snapshot, but: frozenset[str] = TIME_DEPENDENT) -> None:
    """Every column of every table is equal."""
    assert (one.at, one.domain_names) == (other.at, other.domain_names)
    for table in ("nodes", "tasks", "services"):
        mine, theirs = getattr(one, table), getattr(other, table)
        for column in fields(mine):
            if column.name in but:
                continue
            left, right = getattr(mine, column.name), getattr(theirs, column.name)
            what = f"{table}.{column.name}"
            if column.name == "power":
                for part in fields(left):
                    np.testing.assert_array_equal(getattr(left, part.name), getattr(right, part.name), what)
            elif isinstance(left, np.ndarray):
                assert left.dtype == right.dtype, what
                np.testing.assert_array_equal(left, right, what)
            else:
                assert left == right, what
