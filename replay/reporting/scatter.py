"""Points in two dimensions, as SVG for a page and as text for a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import sqrt

from replay.reporting.charts import LEFT, WIDTH, Axis, grid, label_below, svg

_SMALLEST_RADIUS, _LARGEST_RADIUS = 4.0, 12.0
_LETTER_WIDTH, _LETTER_HEIGHT = 6.2, 11.0
_GAP, _RING = 3.0, 3.0
TEXT_COLUMNS, TEXT_LINES = 78, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One point."""

    x: float
    y: float
    size: float = 0.0
    """Its area, relative to the largest."""
    mark: str
    """One character, for text."""
    label: str
    """A short name, for SVG."""
    hover: str
    colour: int
    """Its index among the page's colours."""
    is_filled: bool = True
    is_ringed: bool = False
    is_joined: bool = False
    """Whether a line connects it with the others that are joined."""


def axes(dots: Sequence[Dot]) -> tuple[Axis, Axis]:
    """The horizontal axis from 0, and the vertical one from below the lowest point, to show differences."""
    return Axis.covering((dot.x for dot in dots), zero=True), Axis.covering(dot.y for dot in dots)


def scatter_svg(title: str, dots: Sequence[Dot]) -> str:
    """Circles with labels where there is room; the rest of their text appears on hover."""
    across, upwards = axes(dots)
    largest = max((dot.size for dot in dots), default=0.0)
    parts = [*grid(upwards), *(label_below(across.x(tick), f"{tick:g}") for tick in across.ticks())]
    joined = [f"{across.x(dot.x):.1f},{upwards.y(dot.y):.1f}" for dot in dots if dot.is_joined]
    if joined:
        colour = next(dot.colour for dot in dots if dot.is_joined)
        parts.append(f'<polyline class="line joined c{colour}" points="{" ".join(joined)}"/>')
    circles = [(across.x(dot.x), upwards.y(dot.y), _radius(dot.size, largest)) for dot in dots]
    taken = [_Box(x - radius, y - radius, x + radius, y + radius) for x, y, radius in circles]
    # The largest first, so that no small circle is hidden.
    for place in sorted(range(len(dots)), key=lambda each: -circles[each][2]):
        parts.extend(_circle(dots[place], *circles[place]))
    for dot, circle in zip(dots, circles, strict=True):
        parts.extend(_label(dot, circle, taken))
    return svg(title, parts)


def _radius(size: float, largest: float) -> float:
    share = sqrt(size / largest) if largest > 0 else 0.0
    return _SMALLEST_RADIUS + (_LARGEST_RADIUS - _SMALLEST_RADIUS) * share


def _circle(dot: Dot, x: float, y: float, radius: float) -> Iterator[str]:
    if dot.is_ringed:
        yield f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{radius + _RING:.1f}"/>'
    classes = f"dot c{dot.colour}{'' if dot.is_filled else ' hollow'}"
    hover = f"<title>{escape(dot.hover)}</title>"
    yield f'<circle class="{classes}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">{hover}</circle>'


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "_Box") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def _label(dot: Dot, circle: tuple[float, float, float], taken: list[_Box]) -> Iterator[str]:
    """The label above, below, right or left of its circle, or nothing if there is no room."""
    x, y, radius = circle
    width = len(dot.label) * _LETTER_WIDTH
    away = radius + _GAP + (_RING if dot.is_ringed else 0.0)
    for left, middle in (
        (x - width / 2, y - away - _LETTER_HEIGHT / 2),
        (x - width / 2, y + away + _LETTER_HEIGHT / 2),
        (x + away, y),
        (x - away - width, y),
    ):
        box = _Box(left, middle - _LETTER_HEIGHT / 2, left + width, middle + _LETTER_HEIGHT / 2)
        is_inside = box.left >= LEFT and box.right <= WIDTH and box.top >= 0
        if is_inside and not any(box.overlaps(each) for each in taken):
            taken.append(box)
            yield f'<text class="tick" x="{left:.1f}" y="{middle + 4:.1f}">{escape(dot.label)}</text>'
            return


def scatter_text(dots: Sequence[Dot], across_is: str, upwards_is: str) -> list[str]:
    """Marks on a grid of characters; a mark whose place is taken is drawn at the nearest free place."""
    across, upwards = axes(dots)
    labels = {_line_of(upwards, tick): f"{tick:g}" for tick in upwards.ticks()}
    margin = max(len(label) for label in labels.values())
    columns = TEXT_COLUMNS - margin - 2
    cells = [[" "] * columns for _ in range(TEXT_LINES)]
    for dot in dots:
        line = cells[_line_of(upwards, dot.y)]
        wanted = round(across.share(dot.x) * (columns - 1))
        free = [column for column in range(columns) if line[column] == " "]
        line[min(free, key=lambda column: abs(column - wanted))] = dot.mark
    plot = [
        f"{labels.get(number, ''):>{margin}} |{''.join(line)}".rstrip() for number, line in enumerate(cells)
    ]
    below = [" "] * (columns + 1)
    for tick in across.ticks():
        text = f"{tick:g}"
        start = min(max(0, round(across.share(tick) * (columns - 1)) - len(text) // 2), columns - len(text))
        below[start : start + len(text)] = text
    indent = " " * (margin + 2)
    return [
        upwards_is,
        *plot,
        f"{' ' * margin} +{'-' * columns}",
        f"{indent}{''.join(below)}".rstrip(),
        across_is.rjust(TEXT_COLUMNS),
    ]


def _line_of(upwards: Axis, value: float) -> int:
    return round((1 - upwards.share(value)) * (TEXT_LINES - 1))
