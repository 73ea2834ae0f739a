import asyncio
import base64
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.common.errors import HistoryUnavailable
from collector.common.outages import Dependency, Outages
from collector.config import CollectorConfig, StoreConfig
from collector.features.prometheus.history import PrometheusHistory, open_history
from collector.history.interface import PULLED, OutboxStatus
from collector.history.promql import connect
from tests.collector.builders import (
    HEARTBEAT,
    START,
    altered,
    collecting,
    container,
    partial_report,
    report,
    settings,
)
from tests.collector.features.prometheus.fake import FakeStore, fake_store
from tests.collector.features.prometheus.waiting import until
from wire.errors import UserError
from wire.messages import ContainerUsage
from wire.sketch import Sketch


@dataclass
class Opened:
    history: PrometheusHistory
    troubles: Outages


def config(path: Path | str, url: str, **store: Any) -> CollectorConfig:
    plain = settings(path)
    return msgspec.structs.replace(
        plain,
        history=msgspec.structs.replace(plain.history, store="prometheus"),
        store=StoreConfig(url=url, **store),
    )


@asynccontextmanager
async def opened(path: Path | str, url: str, **store: Any) -> AsyncIterator[Opened]:
    troubles = Outages()
    async with open_history(config(path, url, **store), troubles) as history:
        yield Opened(history, troubles)


def waiting(history: PrometheusHistory) -> OutboxStatus:
    found = history.stats().outbox
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collector.features.prometheus.history._RETRY_SECONDS", (0.01,))


@pytest.fixture
async def store() -> AsyncIterator[FakeStore]:
    async with fake_store() as store:
        yield store


async def test_reports_are_kept_here_and_arrive_there(store: FakeStore, tmp_path: Path) -> None:
    async with opened(tmp_path / "db", store.url) as it:
        assert await it.history.add([report(containers=[container()])], START) == [True]
        await until(lambda: store.sequences() == [START])
        await until(lambda: waiting(it.history) == OutboxStatus(0, 0, 0))
        assert it.history.stats().reports == 1
        [received] = (await it.history.load_state()).reports
        assert received.report.containers == (container(),)


async def test_a_repeat_is_recognised_after_a_restart(store: FakeStore, tmp_path: Path) -> None:
    async with opened(tmp_path / "db", store.url) as it:
        await it.history.add([report()], START)
    async with opened(tmp_path / "db", store.url) as it:
        assert await it.history.add([report(), partial_report(sequence=2, at=START + 1)], START) == [
            False,
            True,
        ]


async def test_a_store_that_is_away_hinders_nothing_and_has_it_all_when_it_is_back(
    store: FakeStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "collector.common.outages")
    store.status = HTTPStatus.SERVICE_UNAVAILABLE
    async with opened(tmp_path / "db", store.url) as it:
        for sequence in range(1, 6):
            assert await it.history.add([partial_report(sequence=sequence, at=START + sequence)], START) == [
                True
            ]
        await until(lambda: bool(it.troubles.by_dependency[Dependency.STORE]) and store.requests > 2)
        [trouble] = it.troubles.problems
        assert trouble == f"the store at {store.url} accepts no samples: it answers 503 not now; retrying"
        assert waiting(it.history).reports == 5
        await it.history.check()
        store.status = HTTPStatus.NO_CONTENT
        await until(lambda: waiting(it.history).reports == 0)
        assert store.sequences() == [START + sequence for sequence in range(1, 6)]
        assert not it.troubles.problems
    # One line each way, however often it was tried.
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_samples_in_the_outbox_are_sent_after_a_restart(store: FakeStore, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with opened(tmp_path / "db", away) as it:
            await it.history.add([report()], START)
            await until(lambda: bool(it.troubles.problems))
            assert "connection refused" in it.troubles.problems[0]
    async with opened(tmp_path / "db", store.url) as it:
        await until(lambda: store.sequences() == [START])


async def test_reports_acknowledged_just_before_a_stop_reach_the_store(
    store: FakeStore, tmp_path: Path
) -> None:
    async with opened(tmp_path / "db", store.url) as it:
        await it.history.add([report()], START)
    # Twice, if the stop came while the store was answering: it gets each report at least once.
    assert set(store.sequences()) == {START}


@pytest.mark.slow
async def test_without_room_the_oldest_is_dropped_and_counted(store: FakeStore, tmp_path: Path) -> None:
    store.status = HTTPStatus.SERVICE_UNAVAILABLE
    small = config(tmp_path / "db", store.url)
    small = msgspec.structs.replace(small, history=altered(small.history, outbox_share=4 << 10))
    async with open_history(small, Outages()) as history:
        it = Opened(history, Outages())
        various = Sketch(dict.fromkeys(range(1, 1001), 1))
        usage = tuple(ContainerUsage(str(number), various, various, various) for number in range(12))
        heartbeat = msgspec.structs.replace(HEARTBEAT, usage=usage)
        for sequence in range(1, 9):
            spoken = partial_report(sequence=sequence, at=START + sequence, heartbeat=heartbeat)
            await it.history.add([spoken], START)
        left = waiting(it.history)
        assert left.reports + left.dropped_reports == 8
        assert left.dropped_reports > 0
        assert left.size_bytes <= 1 << 20


async def test_a_batch_that_the_store_rejects_does_not_block_others(
    store: FakeStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.unwanted, store.status = "beta", HTTPStatus.SERVICE_UNAVAILABLE
    async with opened(tmp_path / "db", store.url) as it:
        for node in ("alpha", "beta", "gamma", "beta"):
            await it.history.add([report(node)], START)
        store.status = HTTPStatus.NO_CONTENT
        await until(lambda: waiting(it.history).reports == 0)
        assert waiting(it.history).dropped_reports == 2
    assert store.sequences("alpha") == store.sequences("gamma") == [START]
    assert sum("rejected samples, dropped them" in record.message for record in caplog.records) == 2


async def test_a_wrong_password_drops_nothing(store: FakeStore, tmp_path: Path) -> None:
    store.status = HTTPStatus.UNAUTHORIZED
    async with opened(tmp_path / "db", store.url) as it:
        await it.history.add([report()], START)
        await until(lambda: bool(it.troubles.problems))
        assert waiting(it.history) == OutboxStatus(1, waiting(it.history).size_bytes, 0)


async def test_pulled_reports_are_not_written_back_to_the_store(store: FakeStore, tmp_path: Path) -> None:
    async with opened(tmp_path / "db", store.url) as it:
        assert await it.history.add([report(boot=PULLED)], START) == [True]
        await it.history.add([report("beta")], START)
        await until(lambda: waiting(it.history).reports == 0)
    assert store.sequences("alpha") == []
    assert store.sequences("beta") == [START]


async def test_an_outage_of_the_store_is_visible(store: FakeStore, tmp_path: Path) -> None:
    store.status = HTTPStatus.BAD_GATEWAY
    async with collecting(config(tmp_path / "db", store.url)) as collector:
        assert (await collector.send(report())).accepted == 1
        await until(lambda: store.requests > 0)
        async with asyncio.timeout(10):
            while "problems" not in (answer := await collector.ask("/readyz"))[1]:
                pass
        assert answer[0] == HTTPStatus.OK, "it can go on without the store"
        assert "it answers 502 not now" in answer[1]["problems"][0]
        async with collector.http.get(collector.url + "/metrics") as scraped:
            lines = (await scraped.text()).splitlines()
        assert 'wattpack_collector_dependency_down{dependency="store"} 1.0' in lines
        assert "wattpack_collector_outbox_reports 1.0" in lines
        assert "wattpack_collector_outbox_dropped_reports_total 0.0" in lines


async def test_credentials_are_shown(store: FakeStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    secret = str(tmp_path / "secret")
    async with connect(StoreConfig(url=store.url, credentials_file=secret), "store") as client:
        await client.query("up", START)
    assert store.authorization == "Bearer s3cret"
    (tmp_path / "secret").write_text("me:s3cret\n")
    async with connect(StoreConfig(url=store.url, credentials_file=secret), "store") as client:
        await client.query("up", START)
    assert store.authorization == "Basic " + base64.b64encode(b"me:s3cret").decode()


async def test_invalid_settings_are_an_error_of_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^store\.url: empty"):
        async with opened(tmp_path / "db", ""):
            pass
    absent = str(tmp_path / "absent")
    with pytest.raises(UserError, match=r"no such file or directory\): check store\.credentials_file"):
        async with opened(tmp_path / "db", "http://127.0.0.1:1", credentials_file=absent):
            pass
    with pytest.raises(UserError, match=r"check ca_file, cert_file and key_file in \[store\]"):
        async with opened(tmp_path / "db", "https://127.0.0.1:1", ca_file=absent):
            pass


@pytest.mark.parametrize("answer", ["<html>", "{}", '{"data":{"resultType":"scalar","result":[1,"2"]}}'])
async def test_an_answer_that_is_not_from_prometheus_is_an_error_that_names_the_url(
    store: FakeStore, answer: str
) -> None:
    store.answer = answer
    async with connect(StoreConfig(url=store.url), "store") as client:
        with pytest.raises(HistoryUnavailable, match="not that of a Prometheus API"):
            await client.query("up", START)
