"""What is too much at once is put off, and one node's too much is not another's."""

import asyncio
import gzip
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.common.errors import ApiError
from collector.config import LimitsConfig
from collector.history.sqlite.history import History
from collector.main import running
from collector.runtime.parts import ReportOutcome
from collector.serve.web.backpressure import Backpressure
from collector.serve.web.scopes import TRUSTED, Caller, Scope
from collector.serve.web.tokens import edit_tokens, make_token
from tests.collector.builders import JSON, Client, Clock, altered, collecting, partial_report, settings
from wire.messages import Report, encode


def batch(node: str, count: int, first: int = 1) -> list[Report]:
    return [partial_report(node, sequence=first + number) for number in range(count)]


def test_waiting_reports_are_limited_and_released() -> None:
    waiting = Backpressure(altered(LimitsConfig(), max_waiting_reports=250, max_waiting_reports_per_node=100))
    with ExitStack() as held:
        held.enter_context(waiting.storing(batch("alpha", 100)))
        with pytest.raises(ApiError, match="of node alpha"), waiting.storing(batch("alpha", 1)):
            pass
        held.enter_context(waiting.storing(batch("beta", 100)))
        with pytest.raises(ApiError, match="too many reports wait"), waiting.storing(batch("gamma", 51)):
            pass
        with waiting.storing(batch("gamma", 50)):
            assert waiting.reports == 250
    assert waiting.reports == 0
    with waiting.storing(batch("alpha", 100)):
        pass


def test_requests_per_node_are_limited() -> None:
    waiting = Backpressure(LimitsConfig())
    alpha, beta = (Caller(Scope.NODE, frozenset({name})) for name in ("alpha", "beta"))
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(waiting.request(alpha))
        with pytest.raises(ApiError), waiting.request(alpha):
            pass
        with waiting.request(beta):
            pass
        for _ in range(100):
            held.enter_context(waiting.request(TRUSTED))
    with waiting.request(alpha):
        pass


def test_total_body_size_is_limited_except_for_a_single_request() -> None:
    waiting = Backpressure(altered(LimitsConfig(), max_waiting_bytes=1 << 20))
    with waiting.request(TRUSTED) as grow:
        grow(2 << 20)
        with waiting.request(TRUSTED) as other, pytest.raises(ApiError, match="request bodies"):
            other(1)
    assert waiting.size_bytes == 0


def test_a_node_has_a_rate_of_reports_and_the_others_keep_theirs() -> None:
    clock, surplus = Clock(0.0), Counter[frozenset[str]]()
    limits = altered(LimitsConfig(), max_reports_per_second=2.0)

    def count(nodes: frozenset[str]) -> None:
        surplus[nodes] += 1

    waiting = Backpressure(limits, monotonic=clock, on_surplus=count)
    loud, quiet = (Caller(Scope.NODE, frozenset({name})) for name in ("loud", "quiet"))

    def send(caller: Caller, node: str) -> None:
        with waiting.request(caller), waiting.storing(batch(node, 10), caller):
            pass

    for _ in range(12):
        send(loud, "loud")
    with pytest.raises(ApiError, match="sends more than"):
        send(loud, "loud")
    send(quiet, "quiet")
    assert surplus == {loud.nodes: 1}
    clock.now += 5.0
    send(loud, "loud")
    with pytest.raises(ApiError):
        send(loud, "loud")
    accepted = 0
    for _ in range(600):
        clock.now += 1.0
        try:
            send(loud, "loud")
        except ApiError:
            continue
        accepted += 10
    assert accepted == pytest.approx(1200, abs=20)
    for _ in range(100):
        send(TRUSTED, "loud")


def test_a_node_has_a_rate_of_bytes_and_a_large_body_is_paid_for_later() -> None:
    clock = Clock(0.0)
    waiting = Backpressure(altered(LimitsConfig(), max_bytes_per_second=1 << 10), monotonic=clock)
    node = Caller(Scope.NODE, frozenset({"alpha"}))
    with waiting.request(node) as grow:
        grow(8 << 20)
    with pytest.raises(ApiError, match="sends more than"), waiting.request(node):
        pass
    clock.now += (8 << 10) - 61
    with pytest.raises(ApiError), waiting.request(node):
        pass
    clock.now += 2
    with waiting.request(node):
        pass


async def test_a_flood_of_one_node_is_answered_with_429_and_shown(tmp_path: Path) -> None:
    secrets = {}
    with edit_tokens(tmp_path / "tokens.jsonl") as tokens:
        for name in ("mallory", "alpha"):
            token, secrets[name] = make_token(Scope.NODE, name, 0.0)
            tokens.append(token)
    limits = altered(LimitsConfig(), max_reports_per_second=1e-6)
    config = msgspec.structs.replace(settings(tokens=tmp_path / "tokens.jsonl"), limits=limits)
    async with running(config) as collector, aiohttp.ClientSession() as http:
        client = Client(collector.address.url, http, Clock())

        async def send_as(node: str, count: int, first: int) -> int:
            headers = {"Authorization": f"Bearer {secrets[node]}"}
            status, _ = await client.post(encode(batch(node, count, first)), headers=headers)
            return status

        statuses = [await send_as("mallory", 10, 1 + 10 * turn) for turn in range(3)]
        assert statuses == [200, 429, 429]
        assert await send_as("alpha", 10, 1) == 200
        core = collector.core
        assert core.registry.limits.refused() == {"mallory": {"rate": 2}}
        assert core.counters.reports[ReportOutcome.DELAYED] == 2


async def test_decompression_bombs_count_by_their_size(tmp_path: Path) -> None:
    with edit_tokens(tmp_path / "tokens.jsonl") as tokens:
        token, secret = make_token(Scope.NODE, "mallory", 0.0)
        tokens.append(token)
    limits = altered(LimitsConfig(), max_bytes_per_second=1 << 17)
    config = msgspec.structs.replace(settings(tokens=tmp_path / "tokens.jsonl"), limits=limits)
    headers = {"Authorization": f"Bearer {secret}", "Content-Encoding": "gzip"}
    bomb = gzip.compress(b"[" + bytes(16 << 20), 1)
    async with collecting(config) as collector:
        statuses = [(await collector.post(bomb, headers=headers))[0] for _ in range(3)]
    assert statuses == [413, 429, 429]


@given(chance=st.floats(0, 1))
def test_retry_after_is_random(chance: float) -> None:
    waiting = Backpressure(altered(LimitsConfig(), max_waiting_reports=100), lambda: chance)
    with pytest.raises(ApiError) as refusal, waiting.storing(batch("alpha", 101)):
        pass
    answer = refusal.value.response()
    assert answer.status == 429
    assert 2 <= int(answer.headers["Retry-After"]) <= 10
    assert int(answer.headers["Retry-After"]) == -(-(2 + 8 * chance) // 1)


class Jam:
    """A history that keeps nothing until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        self.waiting = 0
        self.came = asyncio.Condition()
        add = History.add

        async def jammed(
            history: History, reports: Sequence[Report], received_at: float
        ) -> Sequence[bool | None]:
            async with self.came:
                self.waiting += len(reports)
                self.came.notify_all()
            await self.open.wait()
            return await add(history, reports, received_at)

        monkeypatch.setattr(History, "add", jammed)

    async def until(self, reports: int) -> None:
        async with self.came, asyncio.timeout(10):
            await self.came.wait_for(lambda: self.waiting >= reports)


async def test_overload_delays_requests_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = msgspec.structs.replace(
        settings(), limits=altered(LimitsConfig(), max_waiting_reports=300, max_waiting_reports_per_node=200)
    )
    async with collecting(config) as collector:
        jam = Jam(monkeypatch)
        flood = [asyncio.create_task(send(collector, "loud", 100, 1 + 100 * turn)) for turn in range(5)]
        await jam.until(200)
        quiet = asyncio.create_task(send(collector, "quiet", 50))
        await jam.until(250)
        late = await send(collector, "late", 51)
        assert (late[0], 2 <= int(late[1]["Retry-After"]) <= 10) == (429, True)
        # What needs no history goes on.
        status, _ = await collector.ask("/healthz")
        assert status == 200
        jam.open.set()
        assert [status for status, _ in await asyncio.gather(quiet)] == [200]
        assert sorted([status for status, _ in await asyncio.gather(*flood)]) == [200, 200, 429, 429, 429]
        assert (await send(collector, "late", 51))[0] == 200
        names = {node["name"] for node in await collector.nodes()}
        assert names == {"loud", "quiet", "late"}
        async with collector.http.get(collector.url + "/metrics") as scraped:
            assert 'reports_total{outcome="delayed"} 4.0' in await scraped.text()


async def send(collector: Client, node: str, count: int, first: int = 1) -> tuple[int, Any]:
    body = encode(batch(node, count, first))
    async with collector.http.post(collector.url + "/v1/reports", data=body, headers=JSON) as answer:
        await answer.read()
        return answer.status, answer.headers
