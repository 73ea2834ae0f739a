"""The results of an elastic service: a table for a terminal, and one self-contained page."""

from collections.abc import Iterator
from html import escape
from itertools import count

from replay.reporting.page import chart_card, document, table_html
from replay.setup.scenario import Scenario
from replay.simulation.elastic.compare import ElasticComparison
from replay.simulation.elastic.figures import ElasticResults

ELASTIC_HEADER = (
    "POLICY",
    "ABOVE BOUND %",
    "LATE REQUESTS %",
    "CORE MINUTES",
    "REPLICAS",
    "LIMIT",
    "USED %",
    "kWh",
    "CHANGES",
    "OF LIMIT",
)
_PERCENT = 100.0


def elastic_rows_of(results: ElasticResults) -> Iterator[tuple[str, ...]]:
    """A row per policy."""
    for name, each in results.policies.items():
        yield (
            name,
            f"{_PERCENT * each.violations_ratio:.2f}",
            f"{_PERCENT * each.late_requests_ratio:.2f}",
            f"{each.core_minutes:.0f}",
            f"{each.replicas_mean:.2f}",
            f"{each.cpu_limit_mean_cores:.2f}",
            f"{_PERCENT * each.utilization_mean_ratio:.1f}",
            f"{each.energy_kwh:.3f}",
            str(each.actions),
            str(each.vertical_actions),
        )


def elastic_page(comparison: ElasticComparison, scenario: Scenario) -> str:
    """The whole page."""
    parts = [
        table_html(ELASTIC_HEADER, elastic_rows_of(comparison.results), count()),
        *(f"<p>{escape(name)}: {escape(note)}</p>" for name, note in comparison.notes.items()),
        '<div class="charts">',
        *_charts(comparison, scenario),
        "</div>",
    ]
    return document(scenario.title or "Replay", scenario.about, len(comparison.points), parts)


def _charts(comparison: ElasticComparison, scenario: Scenario) -> Iterator[str]:
    points = comparison.points
    first = {name: series for place, (name, series) in enumerate(points.items()) if not place}
    yield chart_card("Arrivals", "requests per second", first, lambda point: point.requests_per_second)
    assert scenario.elastic is not None
    bound = scenario.elastic.response_max_ms
    yield chart_card(
        "Response time",
        f"ms; cut at twice the bound of {bound:g} ms",
        points,
        lambda point: min(2 * bound, point.response_ms or 0.0),
    )
    yield chart_card("Replicas", "containers", points, lambda point: float(point.replicas))
    yield chart_card(
        "CPU limits", "cores of all replicas", points, lambda point: point.replicas * point.cpu_limit_cores
    )
    yield chart_card("CPU in use", "cores", points, lambda point: point.used_cores)
    yield chart_card("Power", "W of the hosts in use", points, lambda point: point.watts)
