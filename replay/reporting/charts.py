"""Axes, and lines over time, as SVG that needs no script, font or other file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
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
        """The values to label."""
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
    every = _nice_hours(last - first)
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


def _nice_hours(span: float) -> float:
    return next((every for every in _NICE_HOURS if span / every <= 2 * _TICKS), _NICE_HOURS[-1])
