"""Scores of requests on the second half of a trace, and the frontier of each method.

*Slack* is the unused reservation over time, relative to usage: 1.5 means one and a half idle cores per core
in use. *Above* is the share of container time in which usage is above the request. Both are sums over all
containers, so a large service counts as much as it costs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from collector.common.arrays import Floats, Rows
from collector.features.sizing.allocation import Tuning
from collector.features.sizing.sizes import PLACES, ResourceSizes, SizeRules, size_services
from replay.sizing.halves import Halves, vpa_requests
from wire.resources import RESOURCES

OURS, VPA, GIVEN, PERCENTILE = "ours", "vpa", "given", "percentile"
_PERCENTILES = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
_RESERVES = (0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.3, 1.6, 2.0)

Progress = Callable[[float], None]


class MethodScore(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one method on the second half, by resource."""

    slack_ratio: dict[str, float]
    above_ratio: dict[str, float]
    request_ratio: dict[str, float]
    """Sum of the requests, relative to the reservations in the trace; empty without reservations."""


class FrontierPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One method at one setting."""

    method: str
    setting: float
    """The percentile of `vpa` and `percentile`, the reserve ratio of `ours`."""
    slack_ratio: float
    above_ratio: float


class SizingReport(msgspec.Struct, frozen=True, kw_only=True):
    """The scores for a trace."""

    services: int
    learned_days: float
    scored_days: float
    methods: dict[str, MethodScore]
    frontier: dict[str, list[FrontierPoint]]
    """The points of all methods, by resource."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """The second half of one resource, of the services that are compared."""

    row: Rows
    used: Floats

    def score(self, requests: Floats) -> tuple[float, float]:
        """Slack, and time above the request."""
        request = requests[self.row]
        total = float(self.used.sum())
        slack = float(np.maximum(request - self.used, 0.0).sum())
        above = float(np.count_nonzero(self.used > request))
        return slack / total if total > 0 else 0.0, above / max(1, self.used.size)


def score_halves(halves: Halves, rules: SizeRules, progress: Progress | None = None) -> SizingReport:
    """Learn on the first half, and score on the second."""
    show = progress or (lambda _: None)
    steps = 2 + len(_RESERVES) + 2 * len(_PERCENTILES)
    learned = learn_sizes(halves, rules)
    show(1 / steps)
    methods = _score_methods(halves, learned)
    show(2 / steps)
    places = PLACES[: halves.resources]
    scales = {place: _scale(halves, place) for place in places}
    frontier: dict[str, list[FrontierPoint]] = {RESOURCES[place].value: [] for place in places}
    frontier_requests = _frontier(halves, rules, [each.tuning for each in learned])
    for done, (method, setting, points) in enumerate(frontier_requests, start=3):
        for place in places:
            slack, above = scales[place].score(points[:, place])
            point = FrontierPoint(method=method, setting=setting, slack_ratio=slack, above_ratio=above)
            frontier[RESOURCES[place].value].append(point)
        show(done / steps)
    return SizingReport(
        services=len(halves.names),
        learned_days=halves.learned_days,
        scored_days=halves.scored_days,
        methods=methods,
        frontier=frontier,
    )


def compare_methods(halves: Halves, rules: SizeRules) -> dict[str, MethodScore]:
    """The methods at their defaults, without the frontier."""
    return _score_methods(halves, learn_sizes(halves, rules))


def _score_methods(halves: Halves, learned: Sequence[ResourceSizes]) -> dict[str, MethodScore]:
    scales = {place: _scale(halves, place) for place in PLACES[: halves.resources]}
    requests = {
        OURS: np.column_stack([each.request for each in learned]),
        VPA: vpa_requests(halves),
        GIVEN: halves.given,
    }
    return {
        method: score for method, of in requests.items() if (score := _score(halves, scales, of)) is not None
    }


def learn_sizes(
    halves: Halves, rules: SizeRules, tunings: Sequence[Tuning | None] = (None, None)
) -> tuple[ResourceSizes, ResourceSizes]:
    """Our sizes after the first half: as live, with the reservations as current limits."""
    killed = np.full(len(halves.names), np.nan)
    return size_services(halves.table, halves.given, killed, rules, tunings)


def _scale(halves: Halves, place: int) -> _Scale:
    """The usage to compare. If some services have a reservation, the others are left out for all methods."""
    given = ~np.isnan(halves.given[:, place])
    compared = given if given.any() else np.ones(given.size, dtype=np.bool_)
    of = compared[halves.second.service]
    return _Scale(halves.second.service[of], halves.second.used[of, place])


def _score(halves: Halves, scales: dict[int, _Scale], requests: Floats) -> MethodScore | None:
    slack: dict[str, float] = {}
    above: dict[str, float] = {}
    ratio: dict[str, float] = {}
    for place, scale in scales.items():
        given = halves.given[:, place]
        known = ~np.isnan(given)
        if np.isnan(requests[:, place]).all():
            continue
        name = RESOURCES[place].value
        slack[name], above[name] = scale.score(requests[:, place])
        if known.any():
            ratio[name] = float(requests[known, place].sum() / given[known].sum())
    return MethodScore(slack_ratio=slack, above_ratio=above, request_ratio=ratio) if slack else None


def _frontier(
    halves: Halves, rules: SizeRules, tunings: Sequence[Tuning]
) -> Iterator[tuple[str, float, Floats]]:
    """Each method at several values of its setting, with the requests of all services."""
    for reserve in _RESERVES:
        sized = learn_sizes(halves, msgspec.structs.replace(rules, reserve_ratio=reserve), tunings)
        yield OURS, reserve, np.column_stack([each.request for each in sized])
    for percentile in _PERCENTILES:
        yield VPA, percentile, vpa_requests(halves, percentile)
    for percentile in _PERCENTILES:
        yield PERCENTILE, percentile, _percentiles(halves, percentile)


def _percentiles(halves: Halves, percentile: float) -> Floats:
    """A percentile of all usage, without a margin."""
    columns = []
    for place in PLACES:
        usage = halves.table.resource(place)
        times = usage.weighted(np.ones(usage.days))
        columns.append(np.where(times.total > 0, times.edges[times.percentile(percentile)], np.nan))
    return np.column_stack(columns)
