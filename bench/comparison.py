"""One benchmark in two checkouts: the values of both and their ratio, for each figure."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.common.results import Figure, number_text
from wattpack.output.text import table
from wire.errors import INVALID_JSON, UserError


@dataclass(frozen=True, slots=True)
class Pair:
    """The values of one figure in two checkouts; None if a checkout has no such figure."""

    name: str
    other: float | None
    this: float | None

    @property
    def ratio(self) -> float | None:
        """This value divided by the other."""
        return None if self.this is None or not self.other else self.this / self.other


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures of both checkouts."""

    pairs: tuple[Pair, ...]

    def table(self) -> list[str]:
        rows = [
            (pair.name, number_text(pair.other), number_text(pair.this), number_text(pair.ratio))
            for pair in self.pairs
        ]
        return table(("figure", "other", "this", "ratio"), rows)

    def as_json(self) -> dict[str, dict[str, float | None]]:
        return {
            pair.name: {"other": pair.other, "this": pair.this, "ratio": pair.ratio} for pair in self.pairs
        }


class _OtherFigure(msgspec.Struct):
    value: float | None


class _OtherResult(msgspec.Struct):
    """What is read from the result of another checkout."""

    figures: dict[str, _OtherFigure]

    def values(self) -> dict[str, float | None]:
        return {name: figure.value for name, figure in self.figures.items()}


def run_checkout(checkout: Path, name: str, options: Sequence[str]) -> dict[str, float | None]:
    """Run a benchmark with the `./dev` of another checkout; returns its figures, raises `UserError`."""
    try:
        finished = subprocess.run(
            ["./dev", "bench", name, *options], cwd=checkout, stdout=subprocess.PIPE, check=False
        )
    except OSError as error:
        raise UserError(f"--compare: {checkout} has no ./dev that can be run ({error})") from None
    try:
        # Older checkouts do not know --json; all print JSON when stdout is not a terminal.
        return msgspec.json.decode(finished.stdout, type=_OtherResult).values()
    except INVALID_JSON:
        raise UserError(
            f"--compare: ./dev bench {name} in {checkout} ended with status {finished.returncode} and no "
            "result: see above"
        ) from None


def compare(other: Mapping[str, float | None], figures: Sequence[Figure]) -> Comparison:
    """Compare all figures that either checkout has, first those of this one."""
    this = {figure.name: figure.finite_value for figure in figures}
    return Comparison(tuple(Pair(name, other.get(name), this.get(name)) for name in {**this, **other}))
