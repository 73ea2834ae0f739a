"""From reports to rows and back, without loss: a restart must restore exactly what was said."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from collector.analysis.histograms import Packed
from wire.messages import (
    Alert,
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Event,
    Gap,
    Heartbeat,
    NodePower,
    NodeState,
    PowerSource,
    Pressure,
)
from wire.resources import Quantities, Resource

Row = tuple[Any, ...]


class StoredNodeFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What seldom changes from one sample of a node to the next."""

    capacity: Quantities
    learned_capacities: tuple[Resource, ...] = ()
    gaps: tuple[Gap, ...] = ()
    source: PowerSource | None = None


class StoredContainerFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What seldom changes from one sample of a container to the next."""

    name: str
    runtime: str
    limit: Quantities = Quantities()
    image: str | None = None
    service: str | None = None
    labels: dict[str, str] = {}
    restarts: int | None = None
    started_at: float | None = None
    source: PowerSource | None = None


_encoder = msgspec.json.Encoder()
_node_decoder = msgspec.json.Decoder(StoredNodeFacts)
_container_decoder = msgspec.json.Decoder(StoredContainerFacts)
_heartbeat_decoder = msgspec.json.Decoder(Heartbeat)
_alert_decoder = msgspec.json.Decoder(Alert)
_event_decoder = msgspec.json.Decoder(Event)
_packer = msgspec.msgpack.Encoder()
_usage_decoder = msgspec.msgpack.Decoder(tuple[ContainerUsage, ...])
_sums_decoder = msgspec.msgpack.Decoder(dict[str, bytes])

_LEVELS = (
    *("cpu_cores", "memory_bytes", "disk_bytes_per_second", "network_bytes_per_second"),
    *("cpu_pressure_ratio", "memory_pressure_ratio", "disk_pressure_ratio"),
)
_NODE_POWER = ("watts", "idle_watts", "system_watts", "error_ratio", "joules_total")
_CONTAINER_POWER = ("watts", "error_ratio", "joules_total", "idle_watts")
# Columns of these names hold what the message's fields of these names say.
_NODE_PLAIN = (
    *("window_seconds", "load_1m", "frequency_hertz", "iowait_ratio", "steal_ratio"),
    *("swap_used_bytes", "disk_busy_ratio", "oom_kills_total"),
)
_CONTAINER_PLAIN = (
    *("window_seconds", "cpu_seconds_total", "cpu_throttled_seconds_total", "oom_kills_total"),
)

REPORT_COLUMNS = ("boot_id", "sequence", "received_at", "at", "heartbeat")
NODE_VALUES = (*_LEVELS, *_NODE_POWER, *_NODE_PLAIN)
NODE_COLUMNS = ("report_id", "facts_id", *NODE_VALUES)
CONTAINER_VALUES = (*_LEVELS, *_CONTAINER_POWER, *_CONTAINER_PLAIN)
CONTAINER_COLUMNS = ("report_id", "container_id", "facts_id", *CONTAINER_VALUES)

_node_power: Callable[[NodePower], Row] = attrgetter(*_NODE_POWER)
_node_plain: Callable[[NodeState], Row] = attrgetter(*_NODE_PLAIN)
_container_power: Callable[[ContainerPower], Row] = attrgetter(*_CONTAINER_POWER)
_container_plain: Callable[[ContainerState], Row] = attrgetter(*_CONTAINER_PLAIN)
_NO_NODE_POWER: Row = (None,) * len(_NODE_POWER)
_NO_CONTAINER_POWER: Row = (None,) * len(_CONTAINER_POWER)


def encode_heartbeat(heartbeat: Heartbeat | None) -> str | None:
    """A heartbeat without the usage, which is added up elsewhere."""
    if heartbeat is None:
        return None
    return _encoder.encode(msgspec.structs.replace(heartbeat, usage=())).decode()


def decode_heartbeat(text: str | None) -> Heartbeat | None:
    """What `encode_heartbeat` was made from, without the usage."""
    return None if text is None else _heartbeat_decoder.decode(text)


def encode_body(said: Alert | Event) -> str:
    """An alert or event as it is stored."""
    return _encoder.encode(said).decode()


def encode_usage(usage: Sequence[ContainerUsage] | Mapping[str, Packed]) -> bytes:
    """What a heartbeat says of usage, or what containers' usage adds up to, as it is stored."""
    return _packer.encode(usage)


def decode_usage(packed: bytes) -> tuple[ContainerUsage, ...]:
    """What a heartbeat said of usage."""
    return _usage_decoder.decode(packed)


def decode_totals(packed: bytes) -> dict[str, Packed]:
    """What containers' usage added up to, by their ids."""
    return _sums_decoder.decode(packed)


def decode_alert(text: str) -> Alert:
    """The alert that was stored."""
    return _alert_decoder.decode(text)


def decode_event(text: str) -> Event:
    """The event that was stored."""
    return _event_decoder.decode(text)


def encode_node_facts(state: NodeState) -> str:
    """What of a node goes into the facts of its sample."""
    source = None if state.power is None else state.power.source
    facts = StoredNodeFacts(state.capacity, state.learned_capacities, state.gaps, source)
    return _encoder.encode(facts).decode()


def encode_container_facts(container: ContainerState) -> str:
    """What of a container goes into the facts of its sample."""
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
    )
    return _encoder.encode(facts).decode()


def encode_event_facts(event: Event) -> str:
    """All that an event tells of the container that it is about."""
    name = event.name or event.container or "unknown"
    return _encoder.encode(StoredContainerFacts(name, "unknown")).decode()


def decode_container_facts(text: str) -> StoredContainerFacts:
    """The facts that were stored of a container."""
    return _container_decoder.decode(text)


def node_row(state: NodeState, report_id: int, facts_id: int) -> Row:
    """The values of `NODE_COLUMNS`."""
    return (
        report_id,
        facts_id,
        *_levels(state.used, state.pressure),
        *(_NO_NODE_POWER if state.power is None else _node_power(state.power)),
        *_node_plain(state),
    )


def container_row(container: ContainerState, report_id: int, container_id: int, facts_id: int) -> Row:
    """The values of `CONTAINER_COLUMNS`."""
    return (
        report_id,
        container_id,
        facts_id,
        *_levels(container.used, container.pressure),
        *(_NO_CONTAINER_POWER if container.power is None else _container_power(container.power)),
        *_container_plain(container),
    )


def gone_row(report_id: int, container_id: int) -> Row:
    """The values of `CONTAINER_COLUMNS` for one that runs no longer."""
    return (report_id, container_id, *(None,) * (1 + len(CONTAINER_VALUES)))


def decode_node(facts: str, values: Row) -> NodeState:
    """The state that a sample was made from; `values` are those of `NODE_VALUES`."""
    known = _node_decoder.decode(facts)
    levels, power, plain = _parted(values, _NODE_POWER)
    return NodeState(
        used=Quantities(*levels[:4]),
        capacity=known.capacity,
        learned_capacities=known.learned_capacities,
        pressure=Pressure(*levels[4:]),
        power=None
        if known.source is None
        else NodePower(source=known.source, **dict(zip(_NODE_POWER, power, strict=True))),
        gaps=known.gaps,
        **dict(zip(_NODE_PLAIN, plain, strict=True)),
    )


def decode_container(runtime_id: str, facts: str, values: Row) -> ContainerState:
    """The container that a sample was made from; `values` are those of `CONTAINER_VALUES`."""
    known = _container_decoder.decode(facts)
    levels, power, plain = _parted(values, _CONTAINER_POWER)
    return ContainerState(
        id=runtime_id,
        name=known.name,
        runtime=known.runtime,
        used=Quantities(*levels[:4]),
        limit=known.limit,
        pressure=Pressure(*levels[4:]),
        power=None
        if known.source is None
        else ContainerPower(source=known.source, **dict(zip(_CONTAINER_POWER, power, strict=True))),
        image=known.image,
        service=known.service,
        labels=known.labels,
        restarts=known.restarts,
        started_at=known.started_at,
        **dict(zip(_CONTAINER_PLAIN, plain, strict=True)),
    )


def _parted(values: Row, power: tuple[str, ...]) -> tuple[Row, Row, Row]:
    end = len(_LEVELS) + len(power)
    return values[: len(_LEVELS)], values[len(_LEVELS) : end], values[end:]


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
