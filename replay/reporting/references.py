"""Our figures compared with those of papers and peers, with bounds for ours and reasons of differences."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from replay.reporting.tables import Row
from replay.setup.scenario import Expected, Figure
from wire.errors import UserError

_FEW = 10
_NEAR, _HALF_POINT = 0.1, 0.005


class FigureComparison(Figure, frozen=True, kw_only=True):
    """One figure, theirs and ours."""

    theirs: float | None
    ours: float

    @property
    def ok(self) -> bool:
        """Whether our figure is within its bounds."""
        return (self.at_least is None or self.ours >= self.at_least) and (
            self.at_most is None or self.ours <= self.at_most
        )

    @property
    def is_reproduced(self) -> bool:
        """Whether ours is within a tenth of theirs, or half a point; without a value, within the bounds."""
        if self.theirs is None:
            return self.ok
        return abs(self.ours - self.theirs) <= max(_NEAR * abs(self.theirs), _HALF_POINT)


def compare_figures(
    policies: Mapping[str, msgspec.Struct], expected: Sequence[Expected]
) -> list[FigureComparison]:
    """Compare the expected figures of the policies that were run."""
    return [
        _compare(policies, each)
        for each in expected
        if each.policy in policies and each.relative_to in {None, *policies}
    ]


def _compare(policies: Mapping[str, msgspec.Struct], each: Expected) -> FigureComparison:
    ours = figure(policies[each.policy], each.figure)
    if each.relative_to is not None:
        ours = ours / figure(policies[each.relative_to], each.figure) - 1
    stated = msgspec.structs.asdict(each)
    return FigureComparison(theirs=stated.pop("value"), ours=ours, **stated)


def figure(result: msgspec.Struct, name: str) -> float:
    """A figure of a result, by its name."""
    found = msgspec.to_builtins(result)
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, int | float):
        raise UserError(f"[[expected]] names {name!r}, which is not a figure of a result: --json lists them")
    return float(found)


def figure_rows_of(compared: Sequence[FigureComparison]) -> Iterator[Row]:
    """A row per figure, for a table."""
    for each in compared:
        yield {
            "FIGURE": figure_name(each),
            "POLICY": each.policy,
            "THEIRS": "-" if each.theirs is None else format_value(each, each.theirs),
            "OURS": format_value(each, each.ours),
            "BOUND": bounds_text(each),
        }


def notes(compared: Sequence[FigureComparison]) -> Iterator[str]:
    """The reasons of differences, each once, and the sources of figures."""
    yield from dict.fromkeys(each.note for each in compared if each.note)
    yield from sources_of(compared)


def sources_of(compared: Sequence[FigureComparison]) -> Iterator[str]:
    """A line with the sources of figures, if there are any."""
    if sources := dict.fromkeys(each.source for each in compared if each.source):
        yield f"Theirs: {'; '.join(sources)}."


def figure_name(each: FigureComparison) -> str:
    """The name of a figure for people."""
    name = each.figure.replace("_ratio", "").replace("_", " ").replace(".", " ")
    return name if each.relative_to is None else f"{name} against {each.relative_to}"


def bounds_text(each: FigureComparison) -> str:
    """The bounds for our figure, and whether it misses them."""
    bounds = ((">=", each.at_least), ("<=", each.at_most))
    text = " ".join(f"{sign} {format_value(each, bound)}" for sign, bound in bounds if bound is not None)
    return text if each.ok else f"{text}: missed"


def format_value(each: FigureComparison, value: float) -> str:
    """A value of a figure as text."""
    if each.relative_to is not None:
        return f"{100 * value:+.1f} %"
    if "_ratio" in each.figure:
        return f"{100 * value:.1f} %"
    if float(value).is_integer():
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) < _FEW else f"{value:.1f}"
