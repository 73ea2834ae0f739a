"""The results as one self-contained page: figures in tables, and charts over time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from itertools import count
from typing import TypeVar

from replay.reporting.charts import Line, chart, scatter_svg
from replay.reporting.pareto import Pareto, dots_of, marked, pareto_rows_of, summary
from replay.reporting.tables import Row, application_rows_of, elastic_rows_of, rows_of
from replay.setup.elastic import MILLI
from replay.setup.scenario import Scenario
from replay.simulation.accounting import IntervalSums
from replay.simulation.compare import Comparison
from replay.simulation.elastic.compare import ElasticComparison
from replay.simulation.elastic.run import Interval
from wire.resources import RESOURCES

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8a00", "#666666")
"""The palette of Okabe and Ito, which colour-blind readers can distinguish."""
_PERCENT = 100.0
_Timed = TypeVar("_Timed", IntervalSums, Interval)

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1b1f24; --faint: #6b7280; --rule: #e3e6ea; --paper: #fff; --card: #f8f9fb; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --faint: #9aa3ad; --rule: #2c323a; --paper: #14171b; --card: #1b1f25; }
}
body { margin: 0 auto; max-width: 84rem; padding: 2rem 1.25rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1rem; margin: 0 0 .5rem; }
p { margin: .25rem 0 1rem; max-width: 60rem; color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule); }
th { font-weight: 600; color: var(--faint); } th:first-child, td:first-child { text-align: left; }
.charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .9rem 1rem; }
.unit { color: var(--faint); font-weight: 400; }
svg { width: 100%; height: auto; display: block; }
.grid { stroke: var(--rule); } .tick { fill: var(--faint); font-size: 11px; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.joined { stroke-width: 1; stroke-dasharray: 3 3; }
svg .dot { stroke-width: 1.6; fill-opacity: .75; } svg .dot.hollow { fill: var(--card); fill-opacity: 1; }
section.pareto { max-width: 56rem; box-sizing: border-box; }
.ring { fill: none; stroke: var(--ink); stroke-width: 1.2; }
.swatch { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .5rem;
  vertical-align: -1px; }
""".strip()


def page(comparison: Comparison, scenario: Scenario, pareto: Pareto | None = None) -> str:
    """The whole page."""
    names = list(comparison.points)
    if pareto is not None and pareto.policy not in names:
        names.append(pareto.policy)
    tables = [table_html(rows_of(comparison.policies), count()), *_applications(comparison)]
    plots = () if pareto is None else _pareto(pareto, names)
    return _page(comparison.notes, scenario, len(names), (*tables,), (*plots,), _charts(comparison.points))


def elastic_page(comparison: ElasticComparison, scenario: Scenario) -> str:
    """The whole page of an elastic service."""
    table = table_html(elastic_rows_of(comparison.policies), count())
    charts = _elastic_charts(comparison.points, scenario)
    return _page(comparison.notes, scenario, len(comparison.points), (table,), (), charts)


def _page(  # noqa: PLR0913, PLR0917 - the parts of a page
    notes: Mapping[str, str],
    scenario: Scenario,
    colours: int,
    tables: Iterable[str],
    plots: Iterable[str],
    charts: Iterable[str],
) -> str:
    parts = [
        *tables,
        *(f"<p>{escape(name)}: {escape(note)}</p>" for name, note in notes.items()),
        *plots,
        '<div class="charts">',
        *charts,
        "</div>",
    ]
    return document(scenario.title or "Replay", scenario.about, colours, parts)


def document(title: str, about: str, colours: int, parts: Iterable[str]) -> str:
    """A self-contained page with this many colours for lines and dots."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>\n{_STYLE}",
            *(
                f".c{place} {{ stroke: {_colour(place)}; }} .dot.c{place} {{ fill: {_colour(place)}; }}"
                for place in range(colours)
            ),
            "</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            f"<p>{escape(about)}</p>" if about else "",
            *parts,
            "</body>\n</html>\n",
        ]
    )


def _applications(comparison: Comparison) -> Iterator[str]:
    rows = list(application_rows_of(comparison.policies))
    places = {name: place for place, name in enumerate(comparison.policies)}
    if rows:
        yield table_html(rows, [places[row["POLICY"]] for row in rows])


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def table_html(rows: Iterable[Row], colours: Iterable[int]) -> str:
    """A table whose rows have the colours of their lines."""
    found = list(rows)
    head = "".join(f"<th>{escape(title)}</th>" for title in found[0])
    body = []
    for place, row in zip(colours, found, strict=False):
        name, *cells = row.values()
        swatch = f'<span class="swatch" style="background:{_colour(place)}"></span>'
        numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        body.append(f"<tr><td>{swatch}{escape(name)}</td>{numbers}</tr>")
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(body)}</table></div>'


def _pareto(pareto: Pareto, names: Sequence[str]) -> Iterator[str]:
    """The points of a policy over its knob and of its peers, as a chart and a table."""
    points = marked(pareto)
    colours = {name: place for place, name in enumerate(names)}
    title = f"{pareto.policy} over {pareto.knob}"
    legend = (
        "Energy in kWh, upwards, and time short in %, across. The larger a circle, the more moves. "
        "Filled: efficient. Hollow: dominated. Ring: the default. Figures appear on hover."
    )
    yield f'<section class="card pareto"><h2>{escape(title)}</h2><p>{legend}</p>'
    plot = scatter_svg(f"{title}: energy in kWh against time short in %", dots_of(points, colours))
    yield f"{plot}</section>"
    yield table_html(pareto_rows_of(points), (colours[each.policy] for each in points))
    yield f"<p>{escape(summary(points))}</p>"


def _charts(points: Mapping[str, Sequence[IntervalSums]]) -> Iterator[str]:
    everything = [point for series in points.values() for point in series]
    yield _chart_card("Power", "kW", points, lambda point: point.joules / point.seconds / 1000)
    yield _chart_card("Nodes on", "nodes", points, lambda point: point.node_seconds / point.seconds)
    for place, resource in enumerate(RESOURCES):
        if any(point.utilisation[place] > 0 for point in everything):
            yield _chart_card(
                f"Use of {resource}",
                "% of the capacity of nodes that are on",
                points,
                partial(_used_percent, place),
            )
    for place, resource in enumerate(RESOURCES):
        if any(point.overloaded_seconds[place] > 0 for point in everything):
            yield _chart_card(
                f"Overload of {resource}",
                "nodes whose demand exceeds their capacity",
                points,
                partial(_overloaded, place),
            )
    if any(point.moves for point in everything):
        yield _chart_card("Moves", "per window", points, lambda point: float(point.moves))
    if any(point.waiting for point in everything):
        yield _chart_card("Waiting", "containers without a node", points, lambda point: float(point.waiting))


def _used_percent(place: int, point: IntervalSums) -> float:
    return float(point.utilisation[place]) * _PERCENT


def _overloaded(place: int, point: IntervalSums) -> float:
    return float(point.overloaded_seconds[place]) / point.seconds


def _elastic_charts(points: Mapping[str, Sequence[Interval]], scenario: Scenario) -> Iterator[str]:
    first = dict(list(points.items())[:1])
    yield _chart_card("Arrivals", "requests per second", first, lambda point: point.requests / point.seconds)
    assert scenario.elastic is not None
    bound = scenario.elastic.response_max_ms
    yield _chart_card(
        "Response time",
        f"ms; cut at twice the bound of {bound:g} ms",
        points,
        lambda point: min(2 * bound, MILLI * (point.metric or 0.0)),
    )
    yield _chart_card("Replicas", "containers", points, lambda point: float(point.replicas))
    yield _chart_card(
        "CPU limits", "cores of all replicas", points, lambda point: point.replicas * point.limit_cores
    )
    yield _chart_card("CPU in use", "cores", points, lambda point: point.used_cores)
    yield _chart_card("Power", "W of the hosts in use", points, lambda point: point.joules / point.seconds)


def _chart_card(
    title: str, unit: str, points: Mapping[str, Sequence[_Timed]], value: Callable[[_Timed], float]
) -> str:
    """A section with a chart of one value over time, with a line per policy."""
    lines = [
        Line(name, place, [point.hours for point in series], [value(point) for point in series])
        for place, (name, series) in enumerate(points.items())
    ]
    heading = f'<h2>{escape(title)} <span class="unit">{escape(unit)}</span></h2>'
    return f'<section class="card">{heading}\n{chart(title, unit, lines)}</section>'
