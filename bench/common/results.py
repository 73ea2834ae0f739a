"""Results of a benchmark: figures with bounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that was measured, and what it may be at most or must be at least.

    A value of None was asked for and could not be measured; that keeps no bound.
    """

    name: str
    value: float | None
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ok(self) -> bool:
        """True if every bound is kept; a figure without a bound is there to be read."""
        if self.at_most is None and self.at_least is None:
            return True
        # Asked this way round, a value that is not a number keeps no bound either.
        return (
            self.value is not None
            and (self.at_most is None or self.value <= self.at_most)
            and (self.at_least is None or self.value >= self.at_least)
        )

    def __str__(self) -> str:
        value = "not measured" if self.value is None else f"{self.value:.4g} {self.unit}"
        sides = (("at most", self.at_most), ("at least", self.at_least))
        bounds = [f"{side} {bound:g}" for side, bound in sides if bound is not None]
        return f"{self.name}: {value}" + (f" ({', '.join(bounds)})" if bounds else "")

    def as_json(self) -> dict[str, object]:
        bounds = {"at_most": self.at_most, "at_least": self.at_least}
        is_number = self.value is not None and float("-inf") < self.value < float("inf")
        return {
            "value": self.value if is_number else None,
            "unit": self.unit,
            "bound": {side: bound for side, bound in bounds.items() if bound is not None} or None,
            "ok": self.ok,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """All figures of one benchmark, and the settings under which they were taken."""

    figures: tuple[Figure, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Comparisons whose needs are not met here, each with the reason."""

    def __post_init__(self) -> None:
        names = [figure.name for figure in self.figures]
        if len(set(names)) != len(names):
            raise ValueError(f"two figures share a name: {sorted(names)}")

    @property
    def ok(self) -> bool:
        """True if every figure keeps its bounds, and there is one at all."""
        return bool(self.figures) and all(figure.ok for figure in self.figures)

    def as_json(self) -> dict[str, object]:
        return {
            "settings": dict(self.settings),
            "figures": {figure.name: figure.as_json() for figure in self.figures},
            "left_out": dict(self.left_out),
            "ok": self.ok,
        }
