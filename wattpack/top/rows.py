"""Rows and columns of the table: one row per container or node, sorted, filtered, cut to fit. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from wattpack.output.text import bytes_text, watts_text
from wattpack.top.scene import UP, Scene
from wattpack.top.spans import bar, shortened
from wattpack.top.view import View
from wire.messages import ContainerPower, NodePower, Pressure
from wire.resources import Quantities, Resource, ratio
from wire.text import printable

_UNKNOWN = "-"
_GAP = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A container or a node."""

    name: str
    node: str
    service: str
    used: Quantities
    capacity: Quantities
    """Capacity of the node."""
    pressure: Pressure
    power: NodePower | ContainerPower | None
    is_stale: bool
    """The node does not report any more: these are its last values."""

    @property
    def worst_pressure(self) -> tuple[float, str] | None:
        """The highest pressure and its resource."""
        pressures = (
            (self.pressure.cpu_ratio, "cpu"),
            (self.pressure.memory_ratio, "mem"),
            (self.pressure.disk_ratio, "disk"),
        )
        known = [(share, resource) for share, resource in pressures if share is not None]
        return max(known, key=lambda pressure: pressure[0], default=None)


@dataclass(frozen=True, slots=True)
class Column:
    """The cells of a column, and its sort order."""

    title: str
    width: int
    cell: Callable[[Row], str]
    sort: str = ""
    rank: Callable[[Row], float | None] = lambda _: None
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class SizedColumn:
    """A column with its width on this screen."""

    column: Column
    width: int

    def fit(self, text: str) -> str:
        """Align text to the left, numbers to the right."""
        cut = _shortened_in_middle(text, self.width) if self.column is _NAME else shortened(text, self.width)
        return cut.ljust(self.width) if self.column.is_text else cut.rjust(self.width)


def _bytes(resource: Resource) -> Callable[[Row], str]:
    return lambda row: bytes_text(row.used.of(resource))


def _used(resource: Resource) -> Callable[[Row], float | None]:
    return lambda row: row.used.of(resource)


def _cores(row: Row) -> str:
    return _UNKNOWN if row.used.cpu_cores is None else f"{row.used.cpu_cores:.2f}"


def _watts(row: Row) -> str:
    return _UNKNOWN if row.power is None else watts_text(row.power.watts, row.power.error_ratio)


def _pressure(row: Row) -> str:
    worst = row.worst_pressure
    return _UNKNOWN if worst is None else f"{worst[0]:.0%} {worst[1]:<4}"


_NAME = Column("NAME", 14, lambda row: row.name, sort="name", is_text=True)
_NODE = Column("NODE", 12, lambda row: row.node, is_text=True)
_CPU = Column("CORES", 6, _cores, "cpu", _used(Resource.CPU))
_CPU_BAR = Column(
    "OF NODE", 12, lambda row: bar(ratio(row.used, row.capacity, Resource.CPU), 12), is_text=True
)
_MEMORY = Column("MEMORY", 10, _bytes(Resource.MEMORY), "memory", _used(Resource.MEMORY))
_DISK = Column("DISK/s", 10, _bytes(Resource.DISK), "disk", _used(Resource.DISK))
_NETWORK = Column("NETWORK/s", 10, _bytes(Resource.NETWORK), "network", _used(Resource.NETWORK))
_POWER = Column("POWER", 15, _watts, "watts", lambda row: None if row.power is None else row.power.watts)
_PRESSURE = Column(
    "PRESSURE", 9, _pressure, "pressure", lambda row: row.worst_pressure[0] if row.worst_pressure else None
)
_SERVICE = Column("SERVICE", 12, lambda row: row.service, is_text=True)

_COLUMNS = (_NAME, _NODE, _CPU, _CPU_BAR, _MEMORY, _DISK, _NETWORK, _POWER, _PRESSURE, _SERVICE)
_DROP_ORDER = (_CPU_BAR, _SERVICE, _PRESSURE, _NETWORK, _DISK, _NODE, _MEMORY, _CPU, _POWER)


def columns_for(scene: Scene, view: View, rows: Sequence[Row], width: int) -> list[SizedColumn]:
    """The columns that fit. The sorted column is never dropped; names get the spare width."""
    shown = list(_COLUMNS)
    if not any(row.service for row in rows):
        shown.remove(_SERVICE)
    if view.nodes or len(scene.nodes) == 1:
        shown.remove(_NODE)
    for column in _DROP_ORDER:
        if _total(shown) <= width:
            break
        if column in shown and column.sort != view.sort:
            shown.remove(column)
    spare = max(0, width - _total(shown))
    for_names = min(spare, _excess(_NAME, rows))
    extra = {_NAME: for_names, _SERVICE: min(spare - for_names, _excess(_SERVICE, rows))}
    return [SizedColumn(column, column.width + extra.get(column, 0)) for column in shown]


def _excess(column: Column, rows: Iterable[Row]) -> int:
    """Additional width that the longest cell needs."""
    return max(0, max((len(column.cell(row)) for row in rows), default=0) - column.width)


def _total(columns: Sequence[Column]) -> int:
    return sum(column.width + _GAP for column in columns) - _GAP


def _shortened_in_middle(name: str, width: int) -> str:
    """Shorten the middle of a name: orchestrators put the distinguishing part at the end."""
    tail = width // 3
    return name if len(name) <= width else f"{name[: width - tail - 1]}…{name[-tail:]}"


def rows_of(scene: Scene, view: View) -> list[Row]:
    """The rows of the view, sorted; unknown values come last in either direction."""
    capacities = {node.name: node.capacity for node in scene.nodes}
    stale = {node.name for node in scene.nodes if node.state != UP}
    if view.nodes:
        rows = [
            Row(
                name=printable(node.name),
                node=printable(node.name),
                service="",
                used=node.used,
                capacity=node.capacity,
                pressure=node.pressure,
                power=node.power,
                is_stale=node.name in stale,
            )
            for node in scene.nodes
        ]
    else:
        rows = [
            Row(
                name=printable(each.name),
                node=printable(each.node),
                service=printable(each.service or ""),
                used=each.used,
                capacity=capacities.get(each.node, Quantities()),
                pressure=each.pressure,
                power=each.power,
                is_stale=each.node in stale,
            )
            for each in scene.containers
        ]
    wanted = view.filter.casefold()
    found = [row for row in rows if wanted in row.name.casefold() or wanted in row.service.casefold()]
    return _sorted(found, view)


def _sorted(rows: list[Row], view: View) -> list[Row]:
    by_name = sorted(rows, key=lambda row: (row.name, row.node))
    if view.sort == "name":
        return by_name[::-1] if view.reverse else by_name
    rank = next(column.rank for column in _COLUMNS if column.sort == view.sort)
    ranked = [(value, row) for row in by_name if (value := rank(row)) is not None]
    ranked.sort(key=lambda pair: pair[0], reverse=not view.reverse)
    return [row for _, row in ranked] + [row for row in by_name if rank(row) is None]
