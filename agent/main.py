"""The agent put together: observing, delivering and exposing, started and stopped as one."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from aiohttp import web

from agent.config import AgentConfig
from agent.deliver import Outbox
from agent.loop import ticks
from agent.metrics import AgentMetrics
from agent.observe import Observer, Survey
from agent.state import AgentState
from wire.address import Address, parse_address
from wire.messages import Report
from wire.serving import metrics_handler, serving

log = logging.getLogger(__name__)

_PATIENCE_WITH_THE_ENGINE_SECONDS = 2.0
_ONCE_INTERVAL_SECONDS = 1.0

_Job = Callable[[], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """A started agent."""

    address: Address
    survey: Survey
    state: AgentState
    work: asyncio.Task[None]
    """Ends only when something went wrong that the agent cannot live with; then it raises."""


@asynccontextmanager
async def running(config: AgentConfig) -> AsyncIterator[RunningAgent]:
    """Run an agent while the block runs."""
    observer = Observer(config)
    state = AgentState(Outbox(config.collector))
    metrics = AgentMetrics(state)
    app = web.Application()
    app.router.add_get("/metrics", metrics_handler(metrics.registry))
    app.router.add_get("/healthz", _healthz)
    address = parse_address(config.http.listen)
    if not address.is_loopback:
        log.warning("anyone who can reach %s can read this node's metrics", address)
    async with serving(app, address, "http.listen") as bound, _background(lambda: _name(observer)):
        await _named(observer)
        survey = observer.survey()
        jobs: list[_Job] = [lambda: _sample(config, observer, state, metrics)]
        if config.collector.enabled:
            jobs.append(state.outbox.run)
        async with _background(*jobs) as work:
            yield RunningAgent(bound, survey, state, work)


async def once(config: AgentConfig) -> Report:
    """One full sample, over a second at most."""
    observer = Observer(config)
    async with _background(lambda: _name(observer)):
        await _named(observer)
        observer.look()
        await asyncio.sleep(min(_ONCE_INTERVAL_SECONDS, config.sampling.period_seconds))
        report = observer.look()
    assert report is not None, "the second look always has a first one to compare with"
    return report


async def _sample(config: AgentConfig, observer: Observer, state: AgentState, metrics: AgentMetrics) -> None:
    async for tick in ticks(config.sampling.period_seconds, time.monotonic):
        state.missed += tick.missed
        with metrics.pass_duration.time():
            # In a thread: a disk or a meter that hangs must not silence /metrics as well.
            report = await asyncio.to_thread(observer.look)
        state.samples += 1
        if report is None:
            continue
        state.report = report
        if config.collector.enabled:
            state.outbox.offer(report)


async def _name(observer: Observer) -> None:
    if observer.names is not None:
        await observer.names.run()


async def _named(observer: Observer) -> None:
    """Give the engine a moment, so that the first report already calls containers by their names."""
    if observer.names is not None:
        with suppress(TimeoutError):
            await asyncio.wait_for(observer.names.listed.wait(), _PATIENCE_WITH_THE_ENGINE_SECONDS)


@asynccontextmanager
async def _background(*jobs: _Job) -> AsyncIterator[asyncio.Task[None]]:
    """Run jobs beside the block, and cancel them when it ends; the task yielded raises what one raises."""

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job())

    task = asyncio.create_task(together())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _healthz(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})
