"""Lines over time, as SVG that needs nothing else: no script, no font, no file beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 30
_MOST_POINTS = 320
_TICKS = 4
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_HOURS_PER_DAY = 24
_NICE_HOURS = (0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 96, 168)


@dataclass(frozen=True, slots=True)
class Line:
    """One policy's values."""

    name: str
    colour: int
    """Its place among the page's colours."""
    hours: Sequence[float]
    values: Sequence[float]


def chart(title: str, unit: str, lines: Sequence[Line]) -> str:
    """A chart with axes, a title for those who cannot see it, and a line per policy."""
    thinned = [_thinned(line) for line in lines]
    first = min((line.hours[0] for line in thinned if line.hours), default=0.0)
    last = max((line.hours[-1] for line in thinned if line.hours), default=1.0)
    highest = max((max(line.values) for line in thinned if line.values), default=0.0)
    step = _nice_step(highest)
    top = step * max(1, ceil(highest / step - 1e-9))
    inner_width, inner_height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(hours: float) -> float:
        return _LEFT + inner_width * (hours - first) / max(last - first, 1e-9)

    def y(value: float) -> float:
        return _TOP + inner_height * (1 - value / top)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}, {escape(unit)}">',
        f"<title>{escape(title)}, {escape(unit)}</title>",
    ]
    for number in range(round(top / step) + 1):
        value = number * step
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        )
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    every = _nice_hours(last - first)
    for number in range(ceil(first / every), floor(last / every) + 1):
        hours = number * every
        label = f"day {hours / _HOURS_PER_DAY:g}" if every >= _HOURS_PER_DAY else f"{hours:g} h"
        parts.append(
            f'<text class="tick" x="{x(hours):.1f}" y="{HEIGHT - 10}" text-anchor="middle">{label}</text>'
        )
    for line in thinned:
        points = " ".join(
            f"{x(hours):.1f},{y(value):.1f}" for hours, value in zip(line.hours, line.values, strict=True)
        )
        name = f"<title>{escape(line.name)}</title>"
        parts.append(f'<polyline class="line c{line.colour}" points="{points}">{name}</polyline>')
    parts.append("</svg>")
    return "\n".join(parts)


def _thinned(line: Line) -> Line:
    """No more points than the eye can tell apart: each the mean of those that it stands for."""
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


def _nice_step(highest: float) -> float:
    """A step of 1, 2, 2.5 or 5 times a power of ten that makes about as many ticks as are wanted."""
    if highest <= 0:
        return 1.0
    rough = highest / _TICKS
    power = 10.0 ** floor(log10(rough))
    return next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))


def _nice_hours(span: float) -> float:
    return next((every for every in _NICE_HOURS if span / every <= 2 * _TICKS), _NICE_HOURS[-1])
