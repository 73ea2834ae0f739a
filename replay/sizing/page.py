"""The report as tables and charts: text for a terminal, and one self-contained page."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import count

from replay.reporting.charts import Dot, scatter_svg, scatter_text
from replay.reporting.page import document, table_html
from replay.reporting.tables import Row
from replay.sizing.scores import OURS, PERCENTILE, VPA, FrontierPoint, SizingReport

_METHODS = (OURS, VPA, PERCENTILE)
_MARKS = {OURS: "o", VPA: "v", PERCENTILE: "."}
_PERCENT = 100.0
_CROPPED = 4.0
"""The chart ends at this multiple of the slack and the time above of ours and VPA."""
ACROSS, UPWARDS = "time above the request, %", "slack"
LEGEND = (
    "o: ours over its reserve, v: VPA over its percentile, .: the percentile alone; nearer to the lower left "
    "corner is better"
)


def rows_of(report: SizingReport) -> Iterator[Row]:
    """A row per method and resource."""
    for method, score in report.methods.items():
        for resource, slack in score.slack_ratio.items():
            requested = score.request_ratio.get(resource)
            yield {
                "METHOD": method,
                "RESOURCE": resource,
                "SLACK": f"{slack:.3f}",
                "TIME ABOVE %": f"{_PERCENT * score.above_ratio[resource]:.3f}",
                "REQUESTED / GIVEN %": "-" if requested is None else f"{_PERCENT * requested:.1f}",
            }


def dots_of(points: Sequence[FrontierPoint], report: SizingReport, resource: str) -> list[Dot]:
    """The points of one resource, without those far from the methods that are compared."""
    compared = [report.methods[name] for name in (OURS, VPA) if name in report.methods]
    most_slack = _CROPPED * max(each.slack_ratio[resource] for each in compared)
    most_above = _CROPPED * max(1e-4, *(each.above_ratio[resource] for each in compared))
    return [
        Dot(
            x=_PERCENT * point.above_ratio,
            y=point.slack_ratio,
            mark=_MARKS[point.method],
            label=f"{point.setting:g}",
            hover=f"{point.method} at {point.setting:g}: slack {point.slack_ratio:.3f}, "
            f"{_PERCENT * point.above_ratio:.3f} % of the time above",
            colour=_METHODS.index(point.method),
            is_filled=point.method == OURS,
            is_joined=point.method == OURS,
        )
        for point in points
        if point.slack_ratio <= most_slack and point.above_ratio <= most_above
    ]


def frontier_text(report: SizingReport) -> Iterator[str]:
    """The frontier of each resource as text."""
    for resource, points in report.frontier.items():
        yield ""
        yield f"{resource}: {LEGEND}"
        yield from scatter_text(dots_of(points, report, resource), ACROSS, UPWARDS)


def page(report: SizingReport, trace: str) -> str:
    """The whole page."""
    about = (
        f"Sizes of {report.services} services, learned on the first {report.learned_days:.3g} days of "
        f"{trace} and scored on the next {report.scored_days:.3g}. Slack is the unused reservation, relative "
        "to usage. Time above is the share of container time in which usage is above the request."
    )
    parts = [table_html(rows_of(report), _colours(report)), '<div class="charts">']
    for resource, points in report.frontier.items():
        title = f"{resource}: slack against time above the request"
        plot = scatter_svg(title, dots_of(points, report, resource))
        heading = (
            f'<h2>{escape(resource)} <span class="unit">{escape(UPWARDS)} over {escape(ACROSS)}</span></h2>'
        )
        note = "Filled: ours over its reserve. Hollow: VPA and the percentile alone. Figures appear on hover."
        parts.append(f'<section class="card">{heading}<p>{note}</p>{plot}</section>')
    parts.append("</div>")
    return document("Sizes", about, len(_METHODS) + 1, parts)


def _colours(report: SizingReport) -> Iterator[int]:
    others = count(len(_METHODS))
    for method, score in report.methods.items():
        colour = _METHODS.index(method) if method in _METHODS else next(others)
        yield from (colour for _ in score.slack_ratio)
