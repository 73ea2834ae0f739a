"""Figures of papers and peers beside ours, with the bounds for ours and reasons of differences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from replay.setup.scenario import Expected
from wire.errors import UserError

HEADER = ("FIGURE", "POLICY", "THEIRS", "OURS", "ASKED")
_FEW = 10


class Compared(Protocol):
    """The results of several policies."""

    @property
    def policies(self) -> Mapping[str, msgspec.Struct]:
        """By their names."""
        ...


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of theirs and ours."""

    policy: str
    figure: str
    relative_to: str | None
    theirs: float | None
    ours: float
    at_least: float | None
    at_most: float | None
    source: str
    note: str

    @property
    def ok(self) -> bool:
        """Whether ours is within its bounds."""
        return (self.at_least is None or self.ours >= self.at_least) and (
            self.at_most is None or self.ours <= self.at_most
        )


def beside(results: Compared, expected: Sequence[Expected]) -> list[Beside]:
    """Every expected figure of a policy that was run."""
    return [_held(results, each) for each in expected if _ran(results, each)]


def _ran(results: Compared, each: Expected) -> bool:
    return each.policy in results.policies and each.relative_to in {None, *results.policies}


def _held(results: Compared, each: Expected) -> Beside:
    ours = figure(results.policies[each.policy], each.figure)
    if each.relative_to is not None:
        ours = ours / figure(results.policies[each.relative_to], each.figure) - 1
    return Beside(
        policy=each.policy,
        figure=each.figure,
        relative_to=each.relative_to,
        theirs=each.value,
        ours=ours,
        at_least=each.at_least,
        at_most=each.at_most,
        source=each.source,
        note=each.note,
    )


def figure(result: msgspec.Struct, name: str) -> float:
    """A number of a result, by its name."""
    found = msgspec.to_builtins(result)
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, int | float):
        raise UserError(f"[[expected]] names {name!r}, which is not a figure of a result: --json lists them")
    return float(found)


def rows(held: Sequence[Beside]) -> Iterator[tuple[str, ...]]:
    """A row per figure, for a table."""
    for each in held:
        theirs = "-" if each.theirs is None else shown(each, each.theirs)
        yield name_of(each), each.policy, theirs, shown(each, each.ours), asked(each)


def notes(held: Sequence[Beside]) -> Iterator[str]:
    """The reasons of differences, each once, and the sources of figures."""
    yield from dict.fromkeys(each.note for each in held if each.note)
    if sources := dict.fromkeys(each.source for each in held if each.source):
        yield f"Theirs: {'; '.join(sources)}."


def name_of(each: Beside) -> str:
    """The name of the figure for people."""
    name = each.figure.replace("_ratio", "").replace("_", " ").replace(".", " ")
    return name if each.relative_to is None else f"{name} against {each.relative_to}"


def asked(each: Beside) -> str:
    """The bounds for ours, and whether it misses them."""
    bounds = ((">=", each.at_least), ("<=", each.at_most))
    bounds_text = " ".join(f"{sign} {shown(each, bound)}" for sign, bound in bounds if bound is not None)
    if not bounds_text:
        return ""
    return bounds_text if each.ok else f"{bounds_text}: missed"


def shown(each: Beside, value: float) -> str:
    """A number of this figure."""
    if each.relative_to is not None:
        return f"{100 * value:+.1f} %"
    if "_ratio" in each.figure:
        return f"{100 * value:.1f} %"
    if float(value).is_integer():
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) < _FEW else f"{value:.1f}"
