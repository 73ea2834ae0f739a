"""Convert reports to rows and back, without loss: a restart restores exactly what was reported."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import astuple, fields, replace

from collector.analysis.histograms import Packed
from wire.messages import (
    Alert,
    ContainerPower,
    ContainerState,
    ContainerUsage,
    Event,
    Heartbeat,
    NodePower,
    NodeState,
    Pressure,
    Report,
)
from wire.resources import Quantities

Row = tuple[Any, ...]
State = TypeVar("State", NodeState, ContainerState)

_REPORT_BYTES, _SAMPLE_BYTES = 100, 200
_ANY_ID = "-"
"""The id of a container in its facts: it is in a table of its own, so that others can have the same facts."""

_encoder = msgspec.json.Encoder()
_heartbeat_decoder = msgspec.json.Decoder(Heartbeat)
decode_container_facts = msgspec.json.Decoder(ContainerState).decode
decode_alert = msgspec.json.Decoder(Alert).decode
decode_event = msgspec.json.Decoder(Event).decode
encode_usage = msgspec.msgpack.Encoder().encode
"""The usage in a heartbeat, or the merged usage of containers, as it is stored."""
decode_usage = msgspec.msgpack.Decoder(tuple[ContainerUsage, ...]).decode
decode_totals = msgspec.msgpack.Decoder(dict[str, Packed]).decode
"""The merged usage of containers, by id."""

_USED = ("cpu_cores", "memory_bytes", "disk_bytes_per_second", "network_bytes_per_second")
_PRESSURE = ("cpu_pressure_ratio", "memory_pressure_ratio", "disk_pressure_ratio")


class _Layout(Generic[State]):
    """How a state is stored: its values in columns, and the rest, which rarely changes, as its facts."""

    def __init__(
        self, kind: type[State], power_kind: type, power: Sequence[str], other: Sequence[str]
    ) -> None:
        self.columns = (*_USED, *_PRESSURE, *power, *other)
        self._power_columns, self._other_columns = power, other
        self._power, self._other = attrgetter(*power), attrgetter(*other)
        self._no_power: Row = (None,) * len(power)
        self._without = _defaults(kind, (*other, "pressure")) | {"used": Quantities()}
        self._without_power = _defaults(power_kind, power)
        self._facts: msgspec.json.Decoder[State] = msgspec.json.Decoder(kind)
        self._described = _other_fields(kind, (*other, "id", "used", "pressure", "power"))
        self._power_described = _other_fields(power_kind, power)

    def has_same_facts(self, before: State, now: State) -> bool:
        """Whether two states of one node or container have the same facts, without encoding them."""
        if self._described(before) != self._described(now):
            return False
        if before.power is None or now.power is None:
            return before.power is now.power
        return bool(self._power_described(before.power) == self._power_described(now.power))

    def facts(self, state: State, **more: str) -> str:
        power = None if state.power is None else replace(state.power, **self._without_power)
        return _encoder.encode(replace(state, power=power, **self._without, **more)).decode()

    def values(self, state: State) -> Row:
        return (
            *astuple(state.used),
            *astuple(state.pressure),
            *(self._no_power if state.power is None else self._power(state.power)),
            *self._other(state),
        )

    def decode(self, facts: str, values: Row, **more: str) -> State:
        known = self._facts.decode(facts)
        named = dict(zip(self.columns, values, strict=True))
        power = known.power
        if power is not None:
            power = replace(power, **{name: named[name] for name in self._power_columns})
        other = {name: named[name] for name in self._other_columns}
        used, pressure = Quantities(*values[:4]), Pressure(*values[4:7])
        state: State = replace(known, used=used, pressure=pressure, power=power, **other, **more)
        return state


def _other_fields(kind: type, names: Iterable[str]) -> Callable[[object], Row]:
    """A function that returns the values of all fields but these."""
    return attrgetter(*(each.name for each in fields(kind) if each.name not in names))


def _defaults(kind: type, names: Iterable[str]) -> dict[str, Any]:
    """Values of fields, of which the encoder leaves out as many as it can."""
    found = {each.name: each.default for each in fields(kind)}
    return {name: 0.0 if found[name] is msgspec.NODEFAULT else found[name] for name in names}


_NODE = _Layout(
    NodeState,
    NodePower,
    ("watts", "idle_watts", "system_watts", "error_ratio", "joules_total"),
    (
        *("window_seconds", "load_1m", "frequency_hertz", "iowait_ratio", "steal_ratio"),
        *("swap_used_bytes", "disk_busy_ratio", "oom_kills_total"),
    ),
)
_CONTAINER = _Layout(
    ContainerState,
    ContainerPower,
    ("watts", "error_ratio", "joules_total", "idle_watts"),
    ("window_seconds", "cpu_seconds_total", "cpu_throttled_seconds_total", "oom_kills_total"),
)
REPORT_COLUMNS = ("boot_id", "sequence", "received_at", "at", "heartbeat", "size")
NODE_VALUES, CONTAINER_VALUES = _NODE.columns, _CONTAINER.columns
NODE_COLUMNS = ("report_id", "facts_id", *NODE_VALUES)
CONTAINER_COLUMNS = ("report_id", "container_id", "facts_id", *CONTAINER_VALUES)
GONE: Row = (None,) * (1 + len(CONTAINER_VALUES))
"""The facts and values of a container that no longer runs."""

encode_node_facts, node_values, decode_node = _NODE.facts, _NODE.values, _NODE.decode
container_values, has_same_facts = _CONTAINER.values, _CONTAINER.has_same_facts


def encode_container_facts(container: ContainerState) -> str:
    """The facts of a container, as stored."""
    return _CONTAINER.facts(container, id=_ANY_ID)


def decode_container(runtime_id: str, facts: str, values: Row) -> ContainerState:
    """The state of a container, from its facts and the values of `CONTAINER_VALUES`."""
    return _CONTAINER.decode(facts, values, id=runtime_id)


def unknown_container(name: str) -> ContainerState:
    """A container of which only the name is known."""
    return ContainerState(_ANY_ID, name, "unknown", 0.0, Quantities())


def encode_heartbeat(heartbeat: Heartbeat | None) -> str | None:
    """A heartbeat without its usage, which has a table of its own."""
    if heartbeat is None:
        return None
    return _encoder.encode(replace(heartbeat, usage=())).decode()


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
