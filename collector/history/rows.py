"""From reports to rows and back, without loss: a restart must restore exactly what was said."""

from collections.abc import Iterable
from typing import Any

import msgspec

from wire.messages import (
    ContainerPower,
    ContainerState,
    Gap,
    NodePower,
    NodeState,
    PowerSource,
    Pressure,
    Report,
)
from wire.resources import Quantities

Row = tuple[Any, ...]


class NodeFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What seldom changes from one report of a node to the next."""

    agent_version: str
    capacity: Quantities
    gaps: tuple[Gap, ...] = ()
    source: PowerSource | None = None


class ContainerFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What seldom changes from one sample of a container to the next."""

    name: str
    runtime: str
    limit: Quantities = Quantities()
    image: str | None = None
    service: str | None = None
    started_at: float | None = None
    source: PowerSource | None = None


_encoder = msgspec.json.Encoder()
_node_decoder = msgspec.json.Decoder(NodeFacts)
_container_decoder = msgspec.json.Decoder(ContainerFacts)

_NODE_VALUES = (
    "cpu_cores, memory_bytes, disk_bytes_per_second, network_bytes_per_second, "
    "cpu_pressure_ratio, memory_pressure_ratio, disk_pressure_ratio, "
    "watts, idle_watts, system_watts, error_ratio, joules_total"
)
_CONTAINER_VALUES = (
    "cpu_seconds_total, "
    "cpu_cores, memory_bytes, disk_bytes_per_second, network_bytes_per_second, "
    "cpu_pressure_ratio, memory_pressure_ratio, disk_pressure_ratio, "
    "watts, error_ratio, joules_total"
)
NODE_COLUMNS = f"boot_id, sequence, received_at, at, interval_seconds, facts_id, {_NODE_VALUES}"
CONTAINER_COLUMNS = f"sample_id, container_id, facts_id, {_CONTAINER_VALUES}"

# What `report_of` and `container_of` expect of a query.
NODE_FIELDS = ", ".join(
    f"s.{name}" for name in ("sequence, at, interval_seconds, " + _NODE_VALUES).split(", ")
)
CONTAINER_FIELDS = ", ".join(f"s.{name}" for name in _CONTAINER_VALUES.split(", "))


def node_facts(report: Report) -> str:
    """What of a node goes into the facts of its sample."""
    state = report.state
    source = None if state.power is None else state.power.source
    facts = NodeFacts(report.agent_version, state.capacity, state.gaps, source)
    return _encoder.encode(facts).decode()


def container_facts(container: ContainerState) -> str:
    """What of a container goes into the facts of its sample."""
    facts = ContainerFacts(
        container.name,
        container.runtime,
        container.limit,
        container.image,
        container.service,
        container.started_at,
        None if container.power is None else container.power.source,
    )
    return _encoder.encode(facts).decode()


def node_row(report: Report, boot_id: int, facts_id: int, received_at: float) -> Row:
    """The values of `NODE_COLUMNS`."""
    state, power = report.state, report.state.power
    return (
        boot_id,
        report.sequence,
        received_at,
        report.at,
        report.interval_seconds,
        facts_id,
        *_levels(state.used, state.pressure),
        *(
            (None,) * 5
            if power is None
            else (power.watts, power.idle_watts, power.system_watts, power.error_ratio, power.joules_total)
        ),
    )


def container_row(container: ContainerState, sample_id: int, container_id: int, facts_id: int) -> Row:
    """The values of `CONTAINER_COLUMNS`."""
    power = container.power
    return (
        sample_id,
        container_id,
        facts_id,
        container.cpu_seconds_total,
        *_levels(container.used, container.pressure),
        *((None,) * 3 if power is None else (power.watts, power.error_ratio, power.joules_total)),
    )


def report_of(node: str, boot: str, facts: str, fields: Row, containers: Iterable[ContainerState]) -> Report:
    """The report that a sample was made from; `fields` are those of `NODE_FIELDS`."""
    known = _node_decoder.decode(facts)
    sequence, at, interval_seconds, *levels = fields
    watts, idle_watts, system_watts, error_ratio, joules_total = levels[7:]
    return Report(
        node=node,
        boot=boot,
        sequence=sequence,
        at=at,
        interval_seconds=interval_seconds,
        agent_version=known.agent_version,
        state=NodeState(
            used=Quantities(*levels[:4]),
            capacity=known.capacity,
            pressure=Pressure(*levels[4:7]),
            power=None
            if known.source is None
            else NodePower(watts, idle_watts, system_watts, known.source, error_ratio, joules_total),
            gaps=known.gaps,
        ),
        containers=tuple(containers),
    )


def container_of(runtime_id: str, facts: str, fields: Row) -> ContainerState:
    """The container that a sample was made from; `fields` are those of `CONTAINER_FIELDS`."""
    known = _container_decoder.decode(facts)
    cpu_seconds_total, *levels = fields
    watts, error_ratio, joules_total = levels[7:]
    return ContainerState(
        id=runtime_id,
        name=known.name,
        runtime=known.runtime,
        cpu_seconds_total=cpu_seconds_total,
        used=Quantities(*levels[:4]),
        limit=known.limit,
        pressure=Pressure(*levels[4:7]),
        power=None
        if known.source is None
        else ContainerPower(watts, known.source, error_ratio, joules_total),
        image=known.image,
        service=known.service,
        started_at=known.started_at,
    )


def _levels(used: Quantities, pressure: Pressure) -> Row:
    return (
        used.cpu_cores,
        used.memory_bytes,
        used.disk_bytes_per_second,
        used.network_bytes_per_second,
        pressure.cpu_ratio,
        pressure.memory_ratio,
        pressure.disk_ratio,
    )
