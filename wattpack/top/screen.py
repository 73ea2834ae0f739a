"""Draws a scene into the lines of a terminal: header, table, footer. Pure."""

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from os import terminal_size

from wattpack.top.header import alerts, meters, title
from wattpack.top.rows import Row, SizedColumn, columns_for, rows_of
from wattpack.top.scene import Scene
from wattpack.top.spans import Line, Style, cut, plain, spaced
from wattpack.top.view import HELP, View, Viewport

_LOWEST_FOR_METERS = 14
_LINES_PER_ALERT_LINE = 6
_UNLIMITED = 1_000_000
_PIPE_WIDTH = 120
_MIN_ROWS = 3


@dataclass(frozen=True, slots=True)
class Screen:
    """Lines that fit the terminal."""

    lines: tuple[Line, ...]
    viewport: Viewport

    @property
    def text(self) -> str:
        """The lines without styles."""
        return "\n".join(plain(line).rstrip() for line in self.lines)


def draw(scene: Scene, view: View, width: int, height: int) -> Screen:
    """Draw for a terminal of this size."""
    rows = rows_of(scene, view)
    columns = columns_for(scene, view, rows, width)
    header = _header(scene, view, columns, width, height)
    help_lines: list[Line] = [
        ((line, Style.FAINT),) for line in (textwrap.wrap("; ".join(HELP), width) if view.help else ())
    ]
    viewport = Viewport(len(rows), max(0, height - len(header) - len(help_lines) - 1))
    table = _table(rows, scene, view, columns, viewport)
    padding: list[Line] = [()] * (viewport.visible - len(table))
    lines = [*header, *table, *padding, *help_lines, _footer(view, viewport, width)]
    return Screen(tuple(cut(line, width) for line in lines[:height]), viewport)


def draw_all(scene: Scene, view: View, size: terminal_size | None = None) -> str:
    """Draw without keys: all rows for a pipe or a file, or as many as fit on a terminal, at least three."""
    width, height = size or (shutil.get_terminal_size((_PIPE_WIDTH, 0)).columns, _UNLIMITED)
    rows = rows_of(scene, view)
    columns = columns_for(scene, view, rows, width)
    header = _header(scene, view, columns, width, height)
    viewport = Viewport(len(rows), max(_MIN_ROWS, height - len(header) - 2))
    lines = [*header, *_table(rows, scene, view, columns, viewport)]
    if len(rows) > viewport.visible:
        lines.append(((f"... and {len(rows) - viewport.visible} more", Style.FAINT),))
    return Screen(tuple(cut(line, width) for line in lines), viewport).text


def _header(scene: Scene, view: View, columns: Sequence[SizedColumn], width: int, height: int) -> list[Line]:
    head = tuple(
        (shown.fit(shown.column.title), Style.SORTED if shown.column.sort == view.sort else Style.HEAD)
        for shown in columns
    )
    return [
        title(scene, width),
        *(meters(scene, width) if height >= _LOWEST_FOR_METERS else ()),
        *alerts(scene, width, max_lines=max(1, height // _LINES_PER_ALERT_LINE)),
        spaced(head, width),
    ]


def _table(
    rows: Sequence[Row], scene: Scene, view: View, columns: Sequence[SizedColumn], viewport: Viewport
) -> list[Line]:
    if not rows:
        nothing: Line = ((_empty_text(scene, view), Style.FAINT),)
        return [nothing][: viewport.visible]
    first = viewport.clamp(view.first)
    return [_line(row, columns) for row in rows[first : first + viewport.visible]]


def _empty_text(scene: Scene, view: View) -> str:
    if view.filter and (scene.nodes if view.nodes else scene.containers):
        return f"No name contains {view.filter!r}; Esc shows all."
    return "No node has reported yet." if view.nodes or not scene.nodes else "No running containers."


def _line(row: Row, columns: Sequence[SizedColumn]) -> Line:
    cells = (shown.fit(shown.column.cell(row)) for shown in columns)
    return ((" ".join(cells), Style.FAINT if row.is_stale else Style.PLAIN),)


def _footer(view: View, viewport: Viewport, width: int) -> Line:
    if view.typing:
        return ((f"filter: {view.filter}_   Enter applies it, Esc shows all".ljust(width), Style.HEAD),)
    first = viewport.clamp(view.first)
    what = "nodes" if view.nodes else "containers"
    last = min(first + viewport.visible, viewport.rows)
    shown = f"{min(first + 1, viewport.rows)}-{last} of {viewport.rows} {what}"
    order = f"by {view.sort}{', reversed' if view.reverse else ''}"
    only = f", filter {view.filter!r}" if view.filter else ""
    left, right = f"{shown} {order}{only}", "? help, q quit"
    return ((f"{left.ljust(width - len(right) - 1)} {right}", Style.HEAD),)
