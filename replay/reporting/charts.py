"""Lines over time and points in two dimensions: SVG that needs no script or font, and text for a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10, sqrt
from sys import float_info
from typing import Self

WIDTH, HEIGHT = 640, 240
LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 30
_MOST_POINTS = 320
_TICKS = 4
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_HOURS_PER_DAY = 24
_NICE_HOURS = (0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 96, 168)


@dataclass(frozen=True, slots=True)
class Line:
    """The values of one policy."""

    name: str
    colour: int
    """Its index among the page's colours."""
    hours: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values between two ticks."""

    low: float
    high: float
    step: float

    @classmethod
    def covering(cls, values: Iterable[float], *, zero: bool = False) -> Self:
        """The smallest axis around these values, from tick to tick; with `zero`, it begins at 0."""
        found = list(values)
        low, high = (0.0 if zero else min(found, default=0.0)), max(found, default=0.0)
        step = _nice_step(high - low or abs(high))
        first = floor(low / step + 1e-9)
        return cls(first * step, max(first + 1, ceil(high / step - 1e-9)) * step, step)

    def ticks(self) -> list[float]:
        return [
            self.low + number * self.step for number in range(round((self.high - self.low) / self.step) + 1)
        ]

    def share(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high end."""
        return (value - self.low) / (self.high - self.low)

    def x(self, value: float) -> float:
        """The horizontal position of a value in a chart."""
        return LEFT + (WIDTH - LEFT - _RIGHT) * self.share(value)

    def y(self, value: float) -> float:
        """The vertical position of a value in a chart, from the top."""
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - self.share(value))


def svg(title: str, parts: Iterable[str]) -> str:
    """An image with a title for screen readers."""
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
    return "\n".join((head, f"<title>{escape(title)}</title>", *parts, "</svg>"))


def grid(axis: Axis) -> Iterator[str]:
    """A horizontal line with a label at every tick."""
    for value in axis.ticks():
        y = axis.y(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'


def label_below(x: float, text: str) -> str:
    """A label below the chart."""
    return f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(text)}</text>'


def chart(title: str, unit: str, lines: Sequence[Line]) -> str:
    """Lines over time, one per policy."""
    thinned = [_thinned(line) for line in lines]
    first = min((line.hours[0] for line in thinned if line.hours), default=0.0)
    last = max((line.hours[-1] for line in thinned if line.hours), default=1.0)
    across = Axis(first, max(last, first + 1e-9), 1.0)
    upwards = Axis.covering((value for line in thinned for value in line.values), zero=True)
    parts = list(grid(upwards))
    every = next((each for each in _NICE_HOURS if (last - first) / each <= 2 * _TICKS), _NICE_HOURS[-1])
    for number in range(ceil(first / every), floor(last / every) + 1):
        hours = number * every
        label = f"day {hours / _HOURS_PER_DAY:g}" if every >= _HOURS_PER_DAY else f"{hours:g} h"
        parts.append(label_below(across.x(hours), label))
    for line in thinned:
        points = " ".join(
            f"{across.x(hours):.1f},{upwards.y(value):.1f}"
            for hours, value in zip(line.hours, line.values, strict=True)
        )
        name = f"<title>{escape(line.name)}</title>"
        parts.append(f'<polyline class="line c{line.colour}" points="{points}">{name}</polyline>')
    return svg(f"{title}, {unit}", parts)


def _thinned(line: Line) -> Line:
    """At most as many points as can be distinguished; each is the mean of several."""
    every = ceil(len(line.values) / _MOST_POINTS)
    if every <= 1:
        return line
    starts = range(0, len(line.values), every)
    values = [line.values[start : start + every] for start in starts]
    hours = [line.hours[start : start + every] for start in starts]
    return Line(
        line.name,
        line.colour,
        [sum(part) / len(part) for part in hours],
        [sum(part) / len(part) for part in values],
    )


def _nice_step(span: float) -> float:
    """A step of 1, 2, 2.5 or 5 times a power of ten, for at most `_TICKS` steps."""
    rough = span / _TICKS
    if rough <= float_info.min:
        return 1.0
    power = 10.0 ** floor(log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


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
