"""Rows and columns of the table: one row per container or node, sorted, filtered, cut to fit. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wattpack.output.text import bytes_text, number_text, watts_text
from wattpack.top.scene import UP, Container, Node, Scene
from wattpack.top.spans import bar, shortened
from wattpack.top.view import View
from wire.resources import Resource, ratio
from wire.text import printable

_GAP = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A container or a node, with text that is safe to print."""

    name: str
    node: str
    service: str
    subject: Node | Container
    home: Node | None
    """The node, if it is known."""

    @property
    def is_stale(self) -> bool:
        """The node does not report any more: these are its last values."""
        return self.home is not None and self.home.state != UP

    @property
    def worst_pressure(self) -> tuple[float, str] | None:
        """The highest pressure and its resource."""
        pressures = zip(self.subject.pressure.values, ("cpu", "mem", "disk"), strict=True)
        known = [(share, resource) for share, resource in pressures if share is not None]
        return max(known, key=lambda each: each[0], default=None)


@dataclass(frozen=True, slots=True)
class Column:
    """The cells of a column, and its sort order."""

    title: str
    width: int
    cell: Callable[[Row], str]
    sort: str = ""
    rank: Callable[[Row], float | None] = lambda _: None
    is_text: bool = False

    def fit(self, text: str) -> str:
        """Align text to the left, numbers to the right."""
        cut = _shortened_in_middle(text, self.width) if self.title == "NAME" else shortened(text, self.width)
        return cut.ljust(self.width) if self.is_text else cut.rjust(self.width)


def _bytes(resource: Resource) -> Callable[[Row], str]:
    return lambda row: bytes_text(row.subject.used.of(resource))


def _used(resource: Resource) -> Callable[[Row], float | None]:
    return lambda row: row.subject.used.of(resource)


def _cpu_bar(row: Row) -> str:
    return bar(None if row.home is None else ratio(row.subject.used, row.home.capacity, Resource.CPU), 12)


def _watts(row: Row) -> str:
    power = row.subject.power
    return "-" if power is None else watts_text(power.watts, power.error_ratio)


def _pressure(row: Row) -> str:
    worst = row.worst_pressure
    return "-" if worst is None else f"{worst[0]:.0%} {worst[1]:<4}"


_NAME = Column("NAME", 14, lambda row: row.name, sort="name", is_text=True)
_NODE = Column("NODE", 12, lambda row: row.node, is_text=True)
_CPU = Column("CORES", 6, lambda row: number_text(row.subject.used.cpu_cores), "cpu", _used(Resource.CPU))
_CPU_BAR = Column("OF NODE", 12, _cpu_bar, is_text=True)
_MEMORY = Column("MEMORY", 10, _bytes(Resource.MEMORY), "memory", _used(Resource.MEMORY))
_DISK = Column("DISK/s", 10, _bytes(Resource.DISK), "disk", _used(Resource.DISK))
_NETWORK = Column("NETWORK/s", 10, _bytes(Resource.NETWORK), "network", _used(Resource.NETWORK))
_POWER = Column(
    "POWER", 15, _watts, "watts", lambda row: row.subject.power.watts if row.subject.power else None
)
_PRESSURE = Column(
    "PRESSURE", 9, _pressure, "pressure", lambda row: row.worst_pressure[0] if row.worst_pressure else None
)
_SERVICE = Column("SERVICE", 12, lambda row: row.service, is_text=True)

_COLUMNS = (_NAME, _NODE, _CPU, _CPU_BAR, _MEMORY, _DISK, _NETWORK, _POWER, _PRESSURE, _SERVICE)
_DROP_ORDER = (_CPU_BAR, _SERVICE, _PRESSURE, _NETWORK, _DISK, _NODE, _MEMORY, _CPU, _POWER)


def columns_for(scene: Scene, view: View, rows: Sequence[Row], width: int) -> list[Column]:
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
    return [replace(column, width=column.width + extra.get(column, 0)) for column in shown]


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
    nodes = {node.name: node for node in scene.nodes}
    subjects: Sequence[Node | Container] = scene.nodes if view.nodes else scene.containers
    rows = [
        Row(
            printable(each.name),
            printable(each.node),
            printable(each.service or ""),
            each,
            nodes.get(each.node),
        )
        for each in subjects
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
