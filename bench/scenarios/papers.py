"""What the papers publish: how much of it is reproduced, differs with a reason, or is not run here.

Figures that can be run are the `[[expected]]` of scenarios whose `source` begins with the name of a paper.
The others are in `scenarios/papers/`, a file per paper, each with the reason.
"""

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from bench.common.markdown import table_head, table_row
from replay.reporting.references import FigureComparison
from replay.setup.scenario import Expected, Figure

_Figure = TypeVar("_Figure", bound=Figure)
FOLDER = Path(__file__).parents[2] / "scenarios" / "papers"


class NotReproduced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Figures of a paper that are not run here."""

    place: str
    """The section, table or figure."""
    quantity: str
    values: list[int | float | str]
    reason: str
    """A key of the paper's `reasons`."""


class Paper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A paper, with what of it is not run here."""

    name: str
    reasons: dict[str, str]
    figures: list[NotReproduced]

    def of(self, figures: Iterable[_Figure]) -> list[_Figure]:
        """Those of these figures that are from this paper."""
        return [each for each in figures if each.source.startswith(f"{self.name}, ")]


def read_papers() -> list[Paper]:
    """Read the files of all papers."""
    return [
        msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Paper)
        for path in sorted(FOLDER.glob("*.toml"))
    ]


def summary(
    papers: Sequence[Paper], compared: Sequence[FigureComparison], absent: Sequence[Expected]
) -> Iterator[str]:
    """A table with the number of figures of each paper; `absent` are those of scenarios that were not run."""
    yield from ("## What five papers report", "")
    yield from table_head(("paper", "published", "reproduced", "differing, with a reason", "not run here"))
    total = [0, 0, 0]
    for paper in papers:
        figures = paper.of(compared)
        reproduced = sum(each.is_reproduced for each in figures)
        not_run = sum(len(each.values) for each in paper.figures) + len(paper.of(absent))
        counts = reproduced, len(figures) - reproduced, not_run
        total = [one + other for one, other in zip(total, counts, strict=True)]
        yield _count_row(paper.name, counts)
    yield _count_row("all", total)
    yield from (
        "",
        "Published is every number in the tables and the text of an evaluation, without those that follow",
        "from others (a complement, a sum). Reproduced is within a tenth of theirs, or half a percentage",
        "point. The notes below each table are the reasons of differences;",
        "[the end of the page](#what-is-not-run-here) lists the rest.",
    )


def _count_row(name: str, counts: Sequence[int]) -> str:
    return table_row((name, str(sum(counts)), *map(str, counts)))


def not_reproduced(papers: Sequence[Paper]) -> Iterator[str]:
    """The figures that are not run here, each with the reason."""
    yield "## What is not run here"
    for paper in papers:
        yield from ("", f"### {paper.name}", "")
        yield from table_head(("where", "what", "theirs", "note"))
        for each in paper.figures:
            number = list(paper.reasons).index(each.reason) + 1
            values = ", ".join(str(value) for value in each.values)
            yield table_row((each.place, each.quantity, values, str(number)))
        yield ""
        yield from (f"{number}. {text}" for number, text in enumerate(paper.reasons.values(), start=1))
