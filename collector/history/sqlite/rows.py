"""Convert reports to rows and back, without loss: a restart restores exactly what was reported."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from collector.analysis.histograms import Packed
from wire.messages import (
    AVERAGE_WEIGHT,
    Alert,
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Event,
    Gap,
    Heartbeat,
    NodePower,
    NodeState,
    PowerScope,
    PowerSource,
    Pressure,
    Report,
)
from wire.resources import Quantities, Resource

Row = tuple[Any, ...]

_REPORT_BYTES, _SAMPLE_BYTES = 100, 200


class StoredNodeFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The values that rarely change between samples of a node."""

    capacity: Quantities
    learned_capacities: tuple[Resource, ...] = ()
    gaps: tuple[Gap, ...] = ()
    source: PowerSource | None = None
    source_scope: PowerScope = PowerScope.MACHINE


class StoredContainerFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The values that rarely change between samples of a container."""

    name: str
    runtime: str
    limit: Quantities = Quantities()
    image: str | None = None
    service: str | None = None
    labels: dict[str, str] = {}
    restarts: int | None = None
    started_at: float | None = None
    source: PowerSource | None = None
    power_weight: float = AVERAGE_WEIGHT


_encoder = msgspec.json.Encoder()
_node_decoder = msgspec.json.Decoder(StoredNodeFacts)
_heartbeat_decoder = msgspec.json.Decoder(Heartbeat)
decode_container_facts = msgspec.json.Decoder(StoredContainerFacts).decode
decode_alert = msgspec.json.Decoder(Alert).decode
decode_event = msgspec.json.Decoder(Event).decode
encode_usage = msgspec.msgpack.Encoder().encode
"""The usage in a heartbeat, or the merged usage of containers, as it is stored."""
decode_usage = msgspec.msgpack.Decoder(tuple[ContainerUsage, ...]).decode
decode_totals = msgspec.msgpack.Decoder(dict[str, Packed]).decode
"""The merged usage of containers, by id."""

_USAGE = (
    *("cpu_cores", "memory_bytes", "disk_bytes_per_second", "network_bytes_per_second"),
    *("cpu_pressure_ratio", "memory_pressure_ratio", "disk_pressure_ratio"),
)
_NODE_POWER = ("watts", "idle_watts", "system_watts", "error_ratio", "joules_total")
_CONTAINER_POWER = ("watts", "error_ratio", "joules_total", "idle_watts")
# Columns with the same names as the fields of the message.
_NODE_OTHER = (
    *("window_seconds", "load_1m", "frequency_hertz", "iowait_ratio", "steal_ratio"),
    *("swap_used_bytes", "disk_busy_ratio", "oom_kills_total"),
)
_CONTAINER_OTHER = (
    *("window_seconds", "cpu_seconds_total", "cpu_throttled_seconds_total", "oom_kills_total"),
)

REPORT_COLUMNS = ("boot_id", "sequence", "received_at", "at", "heartbeat", "size")
NODE_VALUES = (*_USAGE, *_NODE_POWER, *_NODE_OTHER)
NODE_COLUMNS = ("report_id", "facts_id", *NODE_VALUES)
CONTAINER_VALUES = (*_USAGE, *_CONTAINER_POWER, *_CONTAINER_OTHER)
CONTAINER_COLUMNS = ("report_id", "container_id", "facts_id", *CONTAINER_VALUES)

_node_power: Callable[[NodePower], Row] = attrgetter(*_NODE_POWER)
_node_other: Callable[[NodeState], Row] = attrgetter(*_NODE_OTHER)
_container_power: Callable[[ContainerPower], Row] = attrgetter(*_CONTAINER_POWER)
_container_other: Callable[[ContainerState], Row] = attrgetter(*_CONTAINER_OTHER)
_NO_NODE_POWER: Row = (None,) * len(_NODE_POWER)
_NO_CONTAINER_POWER: Row = (None,) * len(_CONTAINER_POWER)


def encode_heartbeat(heartbeat: Heartbeat | None) -> str | None:
    """A heartbeat without its usage, which has a table of its own."""
    if heartbeat is None:
        return None
    return _encoder.encode(msgspec.structs.replace(heartbeat, usage=())).decode()


def report_bytes(report: Report, heartbeat: str | None) -> int:
    """About how much space a report takes, with its samples and their index entries."""
    return (
        _REPORT_BYTES
        + len(heartbeat or "")
        + (_SAMPLE_BYTES if report.state is not None else 0)
        + _SAMPLE_BYTES * len(report.containers)
        + _REPORT_BYTES * len(report.gone)
        + sum(_SAMPLE_BYTES + len(event.name or "") for event in report.events)
        + _SAMPLE_BYTES * len(report.alerts)
    )


def decode_heartbeat(text: str | None) -> Heartbeat | None:
    """The heartbeat without its usage."""
    return None if text is None else _heartbeat_decoder.decode(text)


def encode_body(message: Alert | Event) -> str:
    """An alert or event as it is stored."""
    return _encoder.encode(message).decode()


def encode_node_facts(state: NodeState) -> str:
    """The facts of a node, as stored."""
    facts = StoredNodeFacts(state.capacity, state.learned_capacities, state.gaps)
    if state.power is not None:
        facts = msgspec.structs.replace(
            facts, source=state.power.source, source_scope=state.power.source_scope
        )
    return _encoder.encode(facts).decode()


def encode_container_facts(container: ContainerState) -> str:
    """The facts of a container, as stored."""
    facts = StoredContainerFacts(
        container.name,
        container.runtime,
        container.limit,
        container.image,
        container.service,
        container.labels,
        container.restarts,
        container.started_at,
        None if container.power is None else container.power.source,
        AVERAGE_WEIGHT if container.power is None else container.power.power_weight,
    )
    return _encoder.encode(facts).decode()


def encode_event_facts(event: Event) -> str:
    """The facts of a container that only an event describes."""
    name = event.name or event.container or "unknown"
    return _encoder.encode(StoredContainerFacts(name, "unknown")).decode()


def node_row(state: NodeState, report_id: int, facts_id: int) -> Row:
    """The values of `NODE_COLUMNS`."""
    return (
        report_id,
        facts_id,
        *_usage_values(state.used, state.pressure),
        *(_NO_NODE_POWER if state.power is None else _node_power(state.power)),
        *_node_other(state),
    )


def container_row(container: ContainerState, report_id: int, container_id: int, facts_id: int) -> Row:
    """The values of `CONTAINER_COLUMNS`."""
    return (
        report_id,
        container_id,
        facts_id,
        *_usage_values(container.used, container.pressure),
        *(_NO_CONTAINER_POWER if container.power is None else _container_power(container.power)),
        *_container_other(container),
    )


def gone_row(report_id: int, container_id: int) -> Row:
    """The values of `CONTAINER_COLUMNS` for a container that no longer runs."""
    return (report_id, container_id, *(None,) * (1 + len(CONTAINER_VALUES)))


def decode_node(facts: str, values: Row) -> NodeState:
    """The state of a node, from its facts and the values of `NODE_VALUES`."""
    stored = _node_decoder.decode(facts)
    usage, power, other = _split(values, _NODE_POWER)
    return NodeState(
        used=Quantities(*usage[:4]),
        capacity=stored.capacity,
        learned_capacities=stored.learned_capacities,
        pressure=Pressure(*usage[4:]),
        power=None
        if stored.source is None
        else NodePower(
            source=stored.source,
            source_scope=stored.source_scope,
            **dict(zip(_NODE_POWER, power, strict=True)),
        ),
        gaps=stored.gaps,
        **dict(zip(_NODE_OTHER, other, strict=True)),
    )


def decode_container(runtime_id: str, facts: str, values: Row) -> ContainerState:
    """The state of a container, from its facts and the values of `CONTAINER_VALUES`."""
    stored = decode_container_facts(facts)
    usage, power, other = _split(values, _CONTAINER_POWER)
    return ContainerState(
        id=runtime_id,
        name=stored.name,
        runtime=stored.runtime,
        used=Quantities(*usage[:4]),
        limit=stored.limit,
        pressure=Pressure(*usage[4:]),
        power=None
        if stored.source is None
        else ContainerPower(
            source=stored.source,
            power_weight=stored.power_weight,
            **dict(zip(_CONTAINER_POWER, power, strict=True)),
        ),
        image=stored.image,
        service=stored.service,
        labels=stored.labels,
        restarts=stored.restarts,
        started_at=stored.started_at,
        **dict(zip(_CONTAINER_OTHER, other, strict=True)),
    )


def _split(values: Row, power: tuple[str, ...]) -> tuple[Row, Row, Row]:
    end = len(_USAGE) + len(power)
    return values[: len(_USAGE)], values[len(_USAGE) : end], values[end:]


def _usage_values(used: Quantities, pressure: Pressure) -> Row:
    return (
        used.cpu_cores,
        used.memory_bytes,
        used.disk_bytes_per_second,
        used.network_bytes_per_second,
        pressure.cpu_ratio,
        pressure.memory_ratio,
        pressure.disk_ratio,
    )
