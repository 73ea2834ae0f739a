"""A scene drawn into the lines of a terminal: header, table, footer. Pure."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from wattpack.top.header import alerts, meters, title
from wattpack.top.rows import Row, Shown, columns_for, rows_of
from wattpack.top.scene import Scene
from wattpack.top.spans import Line, Style, cut, plain, spaced
from wattpack.top.view import HELP, Room, View

_LOWEST_FOR_METERS = 14
_LINES_PER_ALERT_LINE = 6
_ENDLESS = 1_000_000


@dataclass(frozen=True, slots=True)
class Screen:
    """Lines, none of them wider and not more than there is room for."""

    lines: tuple[Line, ...]
    room: Room

    @property
    def text(self) -> str:
        """Without styles."""
        return "\n".join(plain(line).rstrip() for line in self.lines)


def draw(scene: Scene, view: View, width: int, height: int) -> Screen:
    """What a terminal of this size shows."""
    rows = rows_of(scene, view)
    columns = columns_for(scene, view, rows, width)
    above = _above(scene, view, columns, width, height)
    help_lines: list[Line] = [
        ((line, Style.FAINT),) for line in (textwrap.wrap("; ".join(HELP), width) if view.help else ())
    ]
    room = Room(len(rows), max(0, height - len(above) - len(help_lines) - 1))
    table = _table(rows, scene, view, columns, room)
    padding: list[Line] = [()] * (room.visible - len(table))
    lines = [*above, *table, *padding, *help_lines, _footer(view, room, width)]
    return Screen(tuple(cut(line, width) for line in lines[:height]), room)


def draw_all(scene: Scene, view: View, width: int) -> str:
    """Everything there is, however long: for a pipe or a file."""
    rows = rows_of(scene, view)
    columns = columns_for(scene, view, rows, width)
    room = Room(len(rows), max(1, len(rows)))
    lines = [*_above(scene, view, columns, width, _ENDLESS), *_table(rows, scene, view, columns, room)]
    return Screen(tuple(cut(line, width) for line in lines), room).text


def _above(scene: Scene, view: View, columns: Sequence[Shown], width: int, height: int) -> list[Line]:
    head = tuple(
        (shown.fit(shown.column.title), Style.SORTED if shown.column.sort == view.sort else Style.HEAD)
        for shown in columns
    )
    return [
        title(scene, width),
        *(meters(scene, width) if height >= _LOWEST_FOR_METERS else ()),
        *alerts(scene, width, most=max(1, height // _LINES_PER_ALERT_LINE)),
        spaced(head, width),
    ]


def _table(rows: Sequence[Row], scene: Scene, view: View, columns: Sequence[Shown], room: Room) -> list[Line]:
    if not rows:
        nothing: Line = ((_nothing(scene, view), Style.FAINT),)
        return [nothing][: room.visible]
    first = room.clamp(view.first)
    return [_line(row, columns) for row in rows[first : first + room.visible]]


def _nothing(scene: Scene, view: View) -> str:
    if view.filter and (scene.nodes if view.nodes else scene.containers):
        return f"Nothing here has {view.filter!r} in its name; Esc shows all."
    return "No node has reported yet." if view.nodes or not scene.nodes else "No container runs here."


def _line(row: Row, columns: Sequence[Shown]) -> Line:
    cells = (shown.fit(shown.column.cell(row)) for shown in columns)
    return ((" ".join(cells), Style.FAINT if row.is_old else Style.PLAIN),)


def _footer(view: View, room: Room, width: int) -> Line:
    if view.typing:
        return ((f"show only: {view.filter}_   Enter keeps it, Esc shows all".ljust(width), Style.HEAD),)
    first = room.clamp(view.first)
    what = "nodes" if view.nodes else "containers"
    shown = f"{min(first + 1, room.rows)}-{min(first + room.visible, room.rows)} of {room.rows} {what}"
    order = f"by {view.sort}{', the other way round' if view.reverse else ''}"
    only = f", only {view.filter!r}" if view.filter else ""
    left, right = f"{shown} {order}{only}", "? help, q quit"
    return ((f"{left.ljust(width - len(right) - 1)} {right}", Style.HEAD),)
