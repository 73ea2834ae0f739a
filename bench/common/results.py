"""Results of a benchmark: figures with bounds."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from wattpack.output.text import table

_WHOLE = 1000
"""Numbers from here on are printed without decimals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number and its bounds.

    The value is None if it could not be measured; that misses every bound.
    """

    name: str
    value: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ok(self) -> bool:
        """True if every bound is kept; a figure without bounds is for information."""
        if self.at_most is None and self.at_least is None:
            return True
        # Written this way round, NaN misses every bound too.
        return (
            self.value is not None
            and (self.at_most is None or self.value <= self.at_most)
            and (self.at_least is None or self.value >= self.at_least)
        )

    @property
    def finite_value(self) -> float | None:
        """The value, or None if JSON cannot hold it."""
        return self.value if self.value is not None and math.isfinite(self.value) else None

    @property
    def bound(self) -> str:
        """The bounds as text."""
        sides = (("at most", self.at_most), ("at least", self.at_least))
        return ", ".join(f"{side} {bound:g}" for side, bound in sides if bound is not None)

    def __str__(self) -> str:
        value = "not measured" if self.value is None else f"{self.value:.4g} {self.unit}"
        return f"{self.name}: {value}" + (f" ({self.bound})" if self.bound else "")

    @property
    def verdict(self) -> str:
        """`ok`, `missed`, or nothing for a figure without bounds."""
        return ("ok" if self.ok else "missed") if self.bound else ""

    def as_json(self) -> dict[str, object]:
        bounds = {"at_most": self.at_most, "at_least": self.at_least}
        return {
            "value": self.finite_value,
            "unit": self.unit,
            "bound": {side: bound for side, bound in bounds.items() if bound is not None} or None,
            "ok": self.ok,
        }


def number_text(number: float | None) -> str:
    """A number for people, or `-` if there is none."""
    return "-" if number is None else f"{number:,.0f}" if abs(number) >= _WHOLE else f"{number:.4g}"


@dataclass(frozen=True, slots=True)
class Result:
    """All figures of one benchmark, and the settings of the run."""

    figures: tuple[Figure, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Comparisons that cannot be made here, each with the reason."""

    def __post_init__(self) -> None:
        names = [figure.name for figure in self.figures]
        if len(set(names)) != len(names):
            raise ValueError(f"two figures share a name: {sorted(names)}")

    @property
    def ok(self) -> bool:
        """True if there are figures and all keep their bounds."""
        return bool(self.figures) and all(figure.ok for figure in self.figures)

    def table(self) -> list[str]:
        """The figures for people, each on one line.

        The unit comes last, because it is often a whole phrase, which a terminal can wrap.
        """
        rows = [
            (figure.name, number_text(figure.value), figure.bound, figure.verdict) for figure in self.figures
        ]
        lines = table(("figure", "value", "bound", ""), rows, width=sys.maxsize)
        width = max(map(len, lines))
        units = ("unit", *(figure.unit for figure in self.figures))
        return [f"{line:<{width}}  {unit}".rstrip() for line, unit in zip(lines, units, strict=True)]

    def as_json(self) -> dict[str, object]:
        return {
            "settings": dict(self.settings),
            "figures": {figure.name: figure.as_json() for figure in self.figures},
            "left_out": dict(self.left_out),
            "ok": self.ok,
        }
