"""The past of the demo cluster, in the collector's history.

The last hour consists of reports of the agents. Older data consists of means over five minutes and over
hours, which are written directly: days of reports would take minutes.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from collector.common.arrays import Floats
from collector.common.outages import Outages
from collector.config import CollectorConfig
from collector.history.sqlite.files.connection import open_for_writing
from collector.history.sqlite.history import History, open_history
from collector.history.sqlite.rollup_store import ADD_CONTAINER, ADD_NODE
from collector.history.sqlite.schema import DETAIL_FROM, NEXT_COMMIT, SET_VALUE
from collector.snapshot.columns import sum_by_node
from collector.snapshot.tables import NOWHERE
from wattpack.demo.agents import DemoAgents
from wattpack.demo.cluster import DemoCluster

FINE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 300, 3600, 86_400
_REPORTED_SECONDS = 3600.0
_SAMPLE_SECONDS = 60.0
_MAX_SAMPLES = 30_000
"""Containers times samples that agents report: in a large cluster, samples are further apart."""
_MAX_FINE_ROWS, _MAX_HOURLY_ROWS = 70_000, 170_000
"""Rows of means. In a large cluster, they begin later."""
_AT_ONCE = 16
"""Samples that are stored in one commit."""
_PEAK_FACTOR = 1.18
"""The highest values, relative to the means."""
_REPORTS_SHARE = 0.4
"""Share of the work, for the progress bar."""
Bucket = tuple[int, int, float, float]
"""Step, number, begin and end."""


@dataclass(frozen=True, slots=True)
class PastPlan:
    """Which part of the past has which resolution."""

    starts_at: float
    hourly_from: float
    fine_from: float
    reports_from: float
    report_seconds: float

    @classmethod
    def of(cls, starts_at: float, days: float, subjects: int) -> "PastPlan":
        """The past of a cluster with this many nodes and containers."""
        reports_from = (starts_at - _REPORTED_SECONDS) // FINE_SECONDS * FINE_SECONDS
        fine = min(DAY_SECONDS // FINE_SECONDS, max(1, _MAX_FINE_ROWS // subjects))
        fine_from = ceil((reports_from - fine * FINE_SECONDS) / HOUR_SECONDS) * HOUR_SECONDS
        hours = min(days * 24, max(1, _MAX_HOURLY_ROWS // subjects))
        hourly_from = floor((starts_at - hours * HOUR_SECONDS) / HOUR_SECONDS) * HOUR_SECONDS
        return cls(
            starts_at=starts_at,
            hourly_from=min(hourly_from, reports_from // HOUR_SECONDS * HOUR_SECONDS),
            fine_from=min(fine_from, reports_from),
            reports_from=reports_from,
            report_seconds=max(_SAMPLE_SECONDS, min(1500.0, _REPORTED_SECONDS * subjects / _MAX_SAMPLES)),
        )

    def report_times(self) -> list[float]:
        """The times at which agents sample."""
        count = ceil((self.starts_at - self.reports_from) / self.report_seconds)
        return [self.reports_from + number * self.report_seconds for number in range(count)]

    def buckets(self) -> Iterator[Bucket]:
        """The buckets with means; the last ones end where reports begin."""
        for step, begin in ((HOUR_SECONDS, self.hourly_from), (FINE_SECONDS, self.fine_from)):
            for bucket in range(floor(begin / step), ceil(self.reports_from / step)):
                yield step, bucket, float(bucket * step), min((bucket + 1) * step, self.reports_from)


async def write_past(
    config: CollectorConfig,
    agents: DemoAgents,
    days: float,
    progress: Callable[[float], None],
    clock: Callable[[], float] = time.time,
) -> float:
    """Write the days before the start into a new history; returns when the agents last sampled."""
    cluster = agents.cluster
    plan = PastPlan.of(cluster.starts_at, days, len(cluster.shop.containers) + len(cluster.shop.nodes))
    times = plan.report_times()
    async with open_history(config, Outages()) as history:
        await _write_reports(history, agents, plan, lambda done: progress(_REPORTS_SHARE * done))
    await asyncio.to_thread(
        _write_means,
        config.history.path,
        cluster,
        plan,
        lambda done: progress(_REPORTS_SHARE + (1 - _REPORTS_SHARE) * done),
    )
    # Writing takes a while: to a collector that starts now, the nodes must not look silent.
    now = clock()
    async with open_history(config, Outages()) as history:
        await history.add(await asyncio.to_thread(agents.sample, now, now - times[-1]), now)
    return now


async def _write_reports(
    history: History, agents: DemoAgents, plan: PastPlan, progress: Callable[[float], None]
) -> None:
    times = plan.report_times()
    storing: list[asyncio.Task[object]] = []
    for number, now in enumerate(times, start=1):
        reports = await asyncio.to_thread(agents.sample, now, plan.report_seconds)
        storing.append(asyncio.create_task(history.add(reports, now)))
        if len(storing) >= _AT_ONCE or number == len(times):
            await asyncio.gather(*storing)
            storing.clear()
            progress(number / len(times))


def _write_means(path: str, cluster: DemoCluster, plan: PastPlan, progress: Callable[[float], None]) -> None:
    """Insert the buckets of nodes and containers, all of which reports have named before."""
    buckets = list(plan.buckets())
    whole_hour = ceil(plan.fine_from / HOUR_SECONDS) * HOUR_SECONDS
    with closing(open_for_writing(path)) as connection, connection:
        nodes = dict(connection.execute("SELECT name, id FROM nodes"))
        node_ids = [nodes[node.name] for node in cluster.shop.nodes]
        containers = dict(connection.execute("SELECT runtime_id, id FROM containers"))
        container_ids = [containers[place.id] for _, place in sorted(cluster.places().items())]
        connection.execute("BEGIN")
        for number, bucket in enumerate(buckets):
            if number % _AT_ONCE == 0:
                progress(number / len(buckets))
            _insert(connection, cluster, bucket, node_ids, container_ids)
        connection.execute(SET_VALUE, (*DETAIL_FROM, str(whole_hour).encode()))
        connection.execute(NEXT_COMMIT)


def _insert(
    connection: sqlite3.Connection,
    cluster: DemoCluster,
    bucket: Bucket,
    node_ids: list[int],
    container_ids: list[int],
) -> None:
    step, number, begins_at, ends_at = bucket
    seconds = ends_at - begins_at
    moment = cluster.at((begins_at + ends_at) / 2)
    node_of = cluster.shop.placement
    began = node_of != NOWHERE
    node_pressure, container_pressure = (
        np.array([each.values for each in found]) for found in cluster.pressures(moment)
    )
    of_containers = sum_by_node(node_of, moment.watts[:, None], len(node_ids))[:, 0]
    means = _rollup(np.column_stack([moment.by_node, moment.node_watts]), node_pressure, seconds)
    joules = np.column_stack([moment.node_watts, moment.idle_watts, of_containers]) * seconds
    connection.executemany(
        ADD_NODE,
        [
            (step, number, row, seconds, *values, *energy, begins_at, ends_at)
            for row, values, energy in zip(node_ids, means, joules.tolist(), strict=True)
        ],
    )
    means = _rollup(np.column_stack([moment.used, moment.watts])[began], container_pressure[began], seconds)
    joules = moment.watts[began] * seconds
    connection.executemany(
        ADD_CONTAINER,
        [
            (step, number, row, seconds, *values, energy)
            for row, values, energy in zip(container_ids, means, joules.tolist(), strict=True)
        ],
    )


def _rollup(means: Floats, pressure: Floats, seconds: float) -> list[list[float]]:
    """The sums and the highest values of a bucket, with pressure in milliseconds and millionths."""
    waiting = np.round(pressure * seconds * 1e3)
    highest = np.round(np.minimum(1.0, pressure * _PEAK_FACTOR) * 1e6)
    rows: list[list[float]] = np.column_stack(
        [means * seconds, waiting, means * _PEAK_FACTOR, highest]
    ).tolist()
    return rows
