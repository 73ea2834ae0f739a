"""Response times of the applications of a scenario, and how far apart their members are."""

import msgspec
import numpy as np

from collector.common.arrays import Floats, Rows
from replay.setup.applications import ApplicationMembers
from replay.setup.elastic import MILLI
from replay.simulation.cluster import Cluster, ContainerPhase, Load

_SHORTEST_SECONDS = 1e-6
_BIN_RATIO = 1.01
"""Response times are counted in bins one percent wide."""
_BINS = 2048
"""The last one ends after 700 s, and contains all longer times."""
_MEDIAN, _PERCENTILE = 0.5, 0.95
_ROUNDING = 1e-9


class ApplicationResult(msgspec.Struct, frozen=True, kw_only=True):
    """An application of the scenario, over the time in which it ran; None if it never ran."""

    response_mean_ms: float | None
    """Service time under the CPU that a server gets, and the round trips between the hosts of the caller and
    the server."""
    response_p50_ms: float | None = None
    response_p95_ms: float | None
    above_ratio: float | None
    """Share of requests that take longer than `response_max_ms`."""
    operations_per_second: float | None
    """Operations per second if connections always have a pending request; None without `connections`."""
    apart_time_ratio: float | None
    """Share of the time in which two hosts that it uses are further apart than `delay_max_ms`."""
    hosts_mean: float | None
    containers_mean: float | None


class ResponseTimes:
    """Adds up the response times of one application, from event to event."""

    def __init__(self, application: ApplicationMembers, cluster: Cluster) -> None:
        self._application, self._cluster = application, cluster
        hosts = cluster.hosts
        seconds = hosts.round_trip_seconds
        self._round_trips: Floats = np.zeros((hosts.size, hosts.size)) if seconds is None else seconds
        self._bins = np.zeros(_BINS)
        self._answered_seconds = self._response_seconds = self._above_seconds = self._operations = 0.0
        self._run_seconds = self._apart_seconds = self._host_seconds = self._container_seconds = 0.0

    def add_interval(self, seconds: float, load: Load) -> None:
        """Account for an interval that begins with this load."""
        cluster, settings = self._cluster, self._application.settings
        running = self._running(self._application.members)
        if seconds <= 0 or not running.size:
            return
        used = np.unique(cluster.node[running])
        self._run_seconds += seconds
        self._host_seconds += used.size * seconds
        self._container_seconds += running.size * seconds
        if settings.delay_max_ms is not None:
            longest = self._round_trips[np.ix_(used, used)].max()
            self._apart_seconds += seconds * bool(longest > settings.delay_max_ms / MILLI + _ROUNDING)
        callers, servers = self._running(self._application.callers), self._running(self._application.servers)
        if not callers.size or not servers.size:
            return
        service = self._service_seconds(servers, load)
        trips = self._round_trips[np.ix_(cluster.node[callers], cluster.node[servers])]
        response: Floats = settings.round_trips * trips + service
        share = seconds / response.size
        self._answered_seconds += seconds
        self._response_seconds += float(response.sum()) * share
        self._above_seconds += float((response > settings.response_max_ms / MILLI + _ROUNDING).sum()) * share
        self._operations += self._rate(response, service) * seconds
        bins = np.log(np.maximum(response, _SHORTEST_SECONDS) / _SHORTEST_SECONDS) / np.log(_BIN_RATIO)
        self._bins += (
            np.bincount(np.minimum(bins.astype(np.intp), _BINS - 1).ravel(), minlength=_BINS) * share
        )

    def _running(self, rows: Rows) -> Rows:
        running: Rows = rows[self._cluster.phase[rows] == ContainerPhase.RUNNING]
        return running

    def _service_seconds(self, servers: Rows, load: Load) -> Floats:
        """Time that each server takes for a request, with the CPU that it gets."""
        got = self._cluster.cpu_ratio_without_limits(load)[np.searchsorted(load.running, servers)]
        seconds: Floats = self._application.settings.service_ms / MILLI / np.maximum(got, _ROUNDING)
        return seconds

    def _rate(self, response: Floats, service: Floats) -> float:
        """Operations per second of all callers, if every connection always has a pending request.

        A connection belongs to one server, so that near servers answer more requests than far ones. A server
        answers at most one request in its service time.
        """
        connections = self._application.settings.connections
        if connections is None:
            return 0.0
        requests = (connections / service.size / np.maximum(response, _SHORTEST_SECONDS)).sum(axis=0)
        return float(np.minimum(requests, 1 / np.maximum(service, _SHORTEST_SECONDS)).sum())

    def figures(self) -> ApplicationResult:
        settings = self._application.settings

        def mean(total: float, seconds: float) -> float | None:
            return total / seconds if seconds > 0 else None

        response = mean(self._response_seconds, self._answered_seconds)
        return ApplicationResult(
            response_mean_ms=None if response is None else response * MILLI,
            response_p50_ms=self._percentile_ms(_MEDIAN),
            response_p95_ms=self._percentile_ms(_PERCENTILE),
            above_ratio=mean(self._above_seconds, self._answered_seconds),
            operations_per_second=(
                None if settings.connections is None else mean(self._operations, self._answered_seconds)
            ),
            apart_time_ratio=(
                None if settings.delay_max_ms is None else mean(self._apart_seconds, self._run_seconds)
            ),
            hosts_mean=mean(self._host_seconds, self._run_seconds),
            containers_mean=mean(self._container_seconds, self._run_seconds),
        )

    def _percentile_ms(self, share: float) -> float | None:
        total = self._bins.sum()
        if not total:
            return None
        place = int(np.searchsorted(np.cumsum(self._bins), share * total))
        return float(_SHORTEST_SECONDS * _BIN_RATIO ** (min(place, _BINS - 1) + 0.5) * MILLI)
