"""Each figure that the papers publish is reproduced, or it differs or cannot be run, with a reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.scenarios.papers import NotReproduced, Paper, read_papers, summary
from bench.scenarios.report import read
from replay.reporting.references import FigureComparison
from replay.setup.scenario import Expected, read_scenario

ROOT = Path(__file__).parents[3]
PAPERS = read_papers()


def compared() -> Iterator[tuple[str, FigureComparison]]:
    for name, scenario in read(ROOT / "docs").scenarios.items():
        yield from ((name, each) for each in scenario.figures)


def figure(ours: float, theirs: float | None = None, at_most: float | None = None) -> FigureComparison:
    return FigureComparison(
        policy="spread", figure="placed", source="P, table 1", ours=ours, theirs=theirs, at_most=at_most
    )


def test_there_is_a_file_for_each_of_the_five_papers() -> None:
    assert len({paper.name for paper in PAPERS}) == 5


def test_every_figure_that_differs_has_a_reason() -> None:
    silent = [
        (name, each.policy, each.figure)
        for name, each in compared()
        if each.source and not each.is_reproduced and not each.note
    ]
    assert silent == []


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_figure_that_cannot_be_run_has_a_reason_and_every_reason_a_figure(paper: Paper) -> None:
    assert {each.reason for each in paper.figures} == set(paper.reasons)
    assert all(paper.reasons.values())
    assert all(each.values and each.place and each.quantity for each in paper.figures)


def test_every_scenario_with_figures_of_a_paper_was_replayed() -> None:
    found = read(ROOT / "docs")
    for path in sorted((ROOT / "scenarios").glob("*.toml")):
        expected = {each.source for each in read_scenario(path).expected if each.source}
        if expected and path.stem not in found.absent:
            assert {each.source for each in found.scenarios[path.stem].figures if each.source} == expected


def test_sources_name_a_paper_or_cloudsim() -> None:
    sources = {each.source for _, each in compared() if each.source}
    names = (*(f"{paper.name}, " for paper in PAPERS), "CloudSim")
    assert [each for each in sources if not each.startswith(names)] == []


def test_a_figure_is_reproduced_within_a_tenth_or_half_a_point() -> None:
    assert figure(1093, 1000).is_reproduced
    assert not figure(1101, 1000).is_reproduced
    assert figure(0.004, 0.0).is_reproduced
    assert figure(-0.3, None, at_most=0.0).is_reproduced
    assert not figure(0.3, None, at_most=0.0).is_reproduced


def test_the_summary_counts_every_number_once() -> None:
    row = NotReproduced(place="table 1", quantity="delays", values=[1.0, 2.0], reason="none")
    paper = Paper(name="P", reasons={"none": "No machine."}, figures=[row])
    absent = Expected(policy="spread", figure="placed", source="P, table 2", value=1.0)
    other = Expected(policy="spread", figure="placed", source="Q, table 2", value=1.0)
    lines = list(summary([paper], [figure(10, 10), figure(20, 10), figure(1, 1)], [absent, other]))
    assert "| P | 6 | 2 | 1 | 3 |" in lines
    assert "| all | 6 | 2 | 1 | 3 |" in lines
