"""The page stands alone, and shows what there is."""

from collections.abc import Callable
from contextlib import nullcontext
from html.parser import HTMLParser

import pytest

from replay.reporting.charts import Line, chart
from replay.reporting.page import page
from replay.setup.scenario import parse_scenario
from replay.simulation.compare import Comparison, compare
from replay.simulation.results import csv_of
from tests.replay.setups import workload

SCENARIO = parse_scenario(
    'title = "<b>&"\n[[hosts]]\nname = "n"\ncount = 2\ncpu_cores = 1\nmemory_mb = 64\nwatts = [10, 20]\n'
    '[policies.again]\npolicy = "spread"\nnote = "as spread, <again>"\n',
    "s",
)


class Tags(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in {"meta", "line"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def nothing_shown(_name: str, _total: float) -> nullcontext[Callable[[float], None]]:
    return nullcontext(lambda _: None)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    containers = workload((0.9, 1e6), (0.8, 1e6))
    return compare(["spread", "again"], SCENARIO, containers, None, nothing_shown)


def test_page_is_whole_and_loads_nothing_from_elsewhere(comparison: Comparison) -> None:
    text = page(comparison, SCENARIO)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "link", "img", "iframe"}
    assert not any(key in {"src", "href"} for _, attributes in tags.seen for key in attributes)
    assert "http" not in text
    assert "<b>&" not in text
    assert "&lt;b&gt;&amp;" in text


def test_page_has_a_line_per_policy_in_every_chart(comparison: Comparison) -> None:
    text = page(comparison, SCENARIO)
    assert text.count("<svg") == text.count("<section")
    assert text.count("<polyline") == 2 * text.count("<svg")
    for title in ("Power", "Nodes on", "Use of cpu", "Use of memory"):
        assert f"<h2>{title} " in text
    assert "Use of disk" not in text
    assert "as spread, &lt;again&gt;" in text


def test_csv_has_a_row_per_policy(comparison: Comparison) -> None:
    header, *rows = csv_of(comparison.policies).splitlines()
    assert header.startswith("policy,energy_kwh,")
    assert "overloaded_node_time_ratio_memory" in header
    assert [row.partition(",")[0] for row in rows] == ["spread", "again"]


def test_long_lines_are_thinned_to_their_means() -> None:
    hours = [number / 12 for number in range(2016)]
    text = chart("Power", "kW", [Line("x", 0, hours, [5.0] * 2016)])
    points = text.partition('points="')[2].partition('"')[0].split()
    assert len(points) <= 320
    assert len({point.partition(",")[2] for point in points}) == 1
    assert "day 1" in text


def test_chart_of_nothing_is_still_a_chart() -> None:
    assert chart("Moves", "", [Line("x", 0, [], [])]).endswith("</svg>")
