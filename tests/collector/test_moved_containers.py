"""A container that was moved continues the windows and samples of the one that it replaced."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import numpy as np
import pytest

from collector.act.journal import Journal, open_journal
from collector.main import RunningCollector, running
from collector.observe.updates import Succession
from collector.observe.windows import BUCKET_SECONDS
from collector.snapshot.tables import Tasks
from tests.collector.builders import HEARTBEAT, Client, Clock, container, partial_report, settings, state
from tests.collector.recorded_moves import record_move
from wire.messages import ContainerUsage
from wire.resources import Quantities
from wire.sketch import Sketch

HOUR_BUCKETS = 12
BEGIN = 1_000_000 * BUCKET_SECONDS
OLD, NEW, OTHER = "id-of-old", "id-of-new", "id-of-other"
MOVE = Succession(node="beta", container=NEW, from_node="alpha", predecessor=OLD)


class Cluster:
    """Two nodes that report every five minutes what each of their containers used."""

    def __init__(self, collector: RunningCollector, client: Client, journal: Journal) -> None:
        self.collector, self._client, self.journal = collector, client, journal
        self.sequence = 0

    async def report(self, bucket: int, **running: dict[str, float]) -> None:
        """Cores of containers, by node and id, at the end of a bucket."""
        now = self._client.clock.now = BEGIN + bucket * BUCKET_SECONDS
        self.sequence += 1
        for node in ("alpha", "beta"):
            used = running.get(node, {})
            states = tuple(
                container(id=each, used=Quantities(cores, 10**6), window_seconds=300.0, started_at=now)
                for each, cores in used.items()
            )
            usage = tuple(ContainerUsage(each, cpu=_samples(cores)) for each, cores in used.items())
            heartbeat = msgspec.structs.replace(HEARTBEAT, beacon_seconds=BUCKET_SECONDS, usage=usage)
            await self._client.send(
                partial_report(
                    node,
                    sequence=self.sequence,
                    at=now,
                    state=state(),
                    containers=states,
                    heartbeat=heartbeat,
                )
            )

    def tasks(self) -> Tasks:
        return self.collector.core.registry.tables.snapshot(self._client.clock.now + 1.0).tasks


def _samples(cores: float, count: int = 100) -> Sketch:
    made = Sketch()
    for _ in range(count):
        made.add(cores)
    return made


@asynccontextmanager
async def cluster(folder: Path, clock: Clock) -> AsyncIterator[Cluster]:
    config = settings(folder / "history.db")
    async with running(config, clock=clock) as collector, aiohttp.ClientSession() as http:
        journal = await open_journal(collector.core.history, config.control)
        yield Cluster(collector, Client(collector.address.url, http, clock), journal)


def known(tasks: Tasks, container_id: str) -> Sequence[float]:
    """The CPU of the closed windows of a container, the newest last."""
    cpu = tasks.windows.amounts[tasks.index[container_id], :, 0]
    return [float(value) for value in cpu[~np.isnan(cpu)]]


async def hour_and_move(made: Cluster, *, reported_first: bool = False) -> None:
    """An hour on alpha, a move in the next five minutes, and ten minutes on beta beside another container."""
    for bucket in range(1, HOUR_BUCKETS + 1):
        await made.report(bucket, alpha={OLD: 0.5})
    if not reported_first:
        await record_move(made.collector, made.journal, MOVE)
    await made.report(HOUR_BUCKETS + 1, beta={NEW: 0.5, OTHER: 0.25})
    if reported_first:
        await record_move(made.collector, made.journal, MOVE)
    await made.report(HOUR_BUCKETS + 2, beta={NEW: 0.5, OTHER: 0.25})


@pytest.mark.parametrize("reported_first", [False, True], ids=["move first", "report first"])
async def test_a_moved_container_continues_what_is_known_of_it(
    tmp_path: Path, *, reported_first: bool
) -> None:
    async with cluster(tmp_path, Clock(BEGIN)) as made:
        await hour_and_move(made, reported_first=reported_first)
        tasks = made.tasks()
        assert tasks.ids == (NEW, OTHER)
        assert known(tasks, NEW) == pytest.approx([0.5] * (HOUR_BUCKETS + 2))
        # An hour and ten minutes, and ten minutes: 100 samples of three seconds in each report.
        seconds = tasks.observed_seconds.tolist()
        assert seconds == [(HOUR_BUCKETS + 2) * 100 * 3.0, 2 * 100 * 3.0]
        assert tasks.mean[:, 0].tolist() == pytest.approx([0.5, 0.25], rel=0.01)
        # It has been where it is for five minutes only.
        assert tasks.settled_seconds.tolist() == [301.0, 301.0]


async def test_an_unrelated_container_of_the_same_service_inherits_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, Clock(BEGIN)) as made:
        await hour_and_move(made)
        assert len(known(made.tasks(), OTHER)) <= 2


async def test_after_a_restart_it_still_does(tmp_path: Path) -> None:
    clock = Clock(BEGIN)
    async with cluster(tmp_path, clock) as made:
        await hour_and_move(made)
        before = made.tasks()
    async with cluster(tmp_path, clock) as made:
        after = made.tasks()
    assert after.ids == before.ids
    # The history begins with the first report, and the live windows with the window of that.
    assert known(after, NEW) == pytest.approx(known(before, NEW)[1:])
    assert after.observed_seconds.tolist() == before.observed_seconds.tolist()
    for column in ("mean", "variance", "envelope"):
        np.testing.assert_allclose(getattr(after, column), getattr(before, column))


async def test_the_last_samples_of_the_old_container_count_too(tmp_path: Path) -> None:
    async with cluster(tmp_path, Clock(BEGIN)) as made:
        await made.report(1, alpha={OLD: 0.5})
        await record_move(made.collector, made.journal, MOVE)
        # The old one ends a little after the new one has started.
        await made.report(2, alpha={OLD: 0.5}, beta={NEW: 0.5})
        await made.report(3, beta={NEW: 0.5})
        assert made.tasks().observed_seconds.tolist() == [4 * 100 * 3.0]


async def test_a_second_move_carries_on_what_the_first_did(tmp_path: Path) -> None:
    clock = Clock(BEGIN)
    async with cluster(tmp_path, clock) as made:
        await hour_and_move(made)
        back = Succession(node="alpha", container="id-of-newest", from_node="beta", predecessor=NEW)
        await record_move(made.collector, made.journal, back)
        await made.report(HOUR_BUCKETS + 3, alpha={"id-of-newest": 0.5})
        before = made.tasks()
        assert known(before, "id-of-newest") == pytest.approx([0.5] * (HOUR_BUCKETS + 3))
    async with cluster(tmp_path, clock) as made:
        after = made.tasks()
        assert known(after, "id-of-newest") == pytest.approx(known(before, "id-of-newest")[1:])
        assert after.observed_seconds.tolist() == before.observed_seconds.tolist()
