"""What a read token can take from others: a share of the streams, one plan at a time, its own turns."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from collector.config import LimitsConfig
from collector.main import running
from collector.runtime.worker import Worker
from collector.serve.web.backpressure import Backpressure
from collector.serve.web.scopes import TRUSTED, Caller, Scope
from collector.serve.web.tokens import edit_tokens, make_token
from tests.collector.builders import JSON, Clock, altered, report, settings
from wire.messages import encode


class Readers:
    """A collector, and two people who may read."""

    def __init__(self, url: str, http: aiohttp.ClientSession, secrets: dict[str, str]) -> None:
        self.url, self.http = url, http
        self._secrets = secrets

    def headers(self, who: str) -> dict[str, str]:
        return {**JSON, "Authorization": f"Bearer {self._secrets[who]}"}


@pytest.fixture
async def readers(tmp_path: Path) -> AsyncIterator[Readers]:
    secrets = {}
    with edit_tokens(tmp_path / "tokens.jsonl") as tokens:
        for name in ("eve", "bob"):
            token, secrets[name] = make_token(Scope.READ, name, 0.0)
            tokens.append(token)
    config = settings(tokens=tmp_path / "tokens.jsonl")
    config = msgspec.structs.replace(config, http=altered(config.http, max_streams=8))
    async with running(config) as collector, aiohttp.ClientSession() as http:
        collector.core.registry.apply(report("alpha"), collector.core.clock())
        yield Readers(collector.address.url, http, secrets)


async def test_one_token_does_not_take_all_streams(readers: Readers) -> None:
    async with AsyncExitStack() as stack:

        async def open_stream(who: str) -> int:
            answer = await stack.enter_async_context(
                readers.http.get(f"{readers.url}/v1/stream", headers=readers.headers(who))
            )
            return answer.status

        assert [await open_stream("eve") for _ in range(4)] == [200, 200, 429, 429]
        assert [await open_stream("bob") for _ in range(2)] == [200, 200]


async def test_plans_are_made_one_at_a_time(readers: Readers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector's own plans and passes wait for at most one."""
    at_once = most = 0

    run = Worker.run

    async def counted(worker: Worker, function: Callable[..., object], *arguments: object) -> object:
        nonlocal at_once, most
        if function.__name__ != "rebalance":
            return await run(worker, function, *arguments)
        at_once += 1
        most = max(most, at_once)
        made = await run(worker, function, *arguments)
        at_once -= 1
        return made

    monkeypatch.setattr(Worker, "run", counted)

    async def ask(who: str) -> int:
        url = f"{readers.url}/v1/hints/rebalance"
        async with readers.http.post(url, data=b"{}", headers=readers.headers(who)) as answer:
            return answer.status

    statuses = await asyncio.gather(*(ask("eve") for _ in range(20)), ask("bob"))
    assert set(statuses) == {200}
    assert most == 1


async def test_requests_of_one_token_wait_for_one_another_and_others_do_not() -> None:
    backpressure = Backpressure(LimitsConfig())
    eve, bob = (Caller(Scope.READ, None, token) for token in ("eve", "bob"))
    done, started = asyncio.Event(), []

    async def ask(caller: Caller) -> None:
        async with backpressure.turn(caller):
            started.append(caller.token)
            await done.wait()

    asking = [asyncio.create_task(ask(eve)) for _ in range(50)]
    asking += [asyncio.create_task(ask(each)) for each in (bob, TRUSTED)]
    await asyncio.sleep(0)
    assert started.count("eve") < 10
    assert (started.count("bob"), started.count("")) == (1, 1)
    done.set()
    await asyncio.gather(*asking)
    assert started.count("eve") == 50


async def test_a_token_that_asks_all_the_time_leaves_half_of_the_time_to_others() -> None:
    clock = Clock(0.0)
    pauses: list[float] = []
    backpressure = Backpressure(LimitsConfig(), monotonic=clock)
    eve = Caller(Scope.READ, None, "eve")
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def at_once(delay: float, work: Callable[[], object]) -> asyncio.TimerHandle:
        pauses.append(delay)
        return call_later(0.0, work)

    async def ask() -> None:
        async with backpressure.turn(eve):
            await asyncio.sleep(0)
            clock.now += 0.25

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "call_later", at_once)
        await asyncio.gather(*(ask() for _ in range(20)))
    assert sum(pauses) >= 0.25 * 17
    pauses.clear()
    await ask()
    assert not pauses, "a request that comes alone is not followed by a pause"


async def test_a_read_token_may_ask_where_but_not_reserve(readers: Readers) -> None:
    async def ask(**more: Any) -> int:
        body, url = encode({"service": "a", "policy": "draps"} | more), f"{readers.url}/v1/hints/placement"
        async with readers.http.post(url, data=body, headers=readers.headers("eve")) as answer:
            return answer.status

    assert await ask() == 200
    assert await ask(reserve_seconds=60) == 403
