"""The agent put together: observing, delivering and exposing, started and stopped as one."""

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from aiohttp import web

from agent.bottlenecks.detector import Watch
from agent.config import AgentConfig
from agent.delivery.sender import Outbox
from agent.exposition.metrics import AgentMetrics
from agent.exposition.state import AgentState
from agent.reporting.messages import container_state, container_values, node_state, node_values
from agent.reporting.reporter import Speaker
from agent.sampling.node_sample import Picture
from agent.sampling.observer import Observer, Survey
from agent.sampling.ticker import ticks
from wire.address import Address, parse_address
from wire.http.serving import metrics_handler, serving
from wire.messages import Report

log = logging.getLogger(__name__)

_PATIENCE_WITH_THE_ENGINE_SECONDS = 2.0
_ONCE_INTERVAL_SECONDS = 1.0

_Job = Callable[[], Coroutine[object, object, None]]


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """A started agent."""

    node: str
    address: Address
    survey: Survey
    state: AgentState
    work: asyncio.Task[None]
    """Ends only when something went wrong that the agent cannot live with; then it raises."""


@asynccontextmanager
async def running(
    config: AgentConfig, alive: Callable[[], None] = lambda: None
) -> AsyncIterator[RunningAgent]:
    """Run an agent while the block runs; `alive` is called after each completed pass."""
    observer = Observer(config, remembers=True)
    state = AgentState(Outbox(config.collector, config.spool))
    metrics = AgentMetrics(state)
    app = web.Application()
    app.router.add_get("/metrics", metrics_handler(metrics.registry))
    app.router.add_get("/healthz", _healthz)
    address = parse_address(config.http.listen)
    if not address.is_loopback and not config.http.web_config:
        log.warning("anyone who can reach %s can read this node's metrics", address)
    async with (
        serving(app, address, "http.listen", config.http.web_config) as bound,
        _background(lambda: _name(observer)),
    ):
        await _named(observer)
        sampling = _Sampling(config, observer, state, metrics, alive)
        jobs: list[_Job] = [sampling.run]
        if config.collector.enabled:
            jobs.append(state.outbox.run)
        try:
            async with _background(*jobs) as work:
                yield RunningAgent(node_name(config), bound, observer.survey(), state, work)
        finally:
            sampling.take_leave()
            await state.outbox.close()
            observer.close()


async def once(config: AgentConfig) -> Report:
    """One full sample, over a second at most."""
    observer = Observer(config)
    async with _background(lambda: _name(observer)):
        await _named(observer)
        observer.look()
        await asyncio.sleep(min(_ONCE_INTERVAL_SECONDS, config.sampling.period_seconds))
        picture = observer.look()
    assert picture is not None, "the second look always has a first one to compare with"
    return whole(node_name(config), picture)


def whole(node: str, picture: Picture) -> Report:
    """One tick in full, in the words of the wire; for people and scripts, never sent."""
    seconds = picture.sample.interval_seconds
    return Report(
        node=node,
        boot="-",
        sequence=1,
        at=picture.sample.unix_seconds,
        state=node_state(picture, node_values(picture), seconds),
        containers=tuple(
            container_state(each, container_values(each), seconds) for each in picture.containers
        ),
    )


def node_name(config: AgentConfig) -> str:
    """What this node is called."""
    return config.node or socket.gethostname()


class _Sampling:
    """The loop that looks, judges and speaks."""

    def __init__(
        self,
        config: AgentConfig,
        observer: Observer,
        state: AgentState,
        metrics: AgentMetrics,
        alive: Callable[[], None],
    ) -> None:
        self._period_seconds = config.sampling.period_seconds
        self._reports = config.collector.enabled
        self._observer = observer
        self._state = state
        self._metrics = metrics
        self._alive = alive
        self._watch = Watch(config.bottleneck)
        self._speaker = Speaker(node_name(config), secrets.token_hex(8), config.push, self._period_seconds)

    async def run(self) -> None:
        async for tick in ticks(self._period_seconds, time.monotonic):
            self._state.missed += tick.missed
            with self._metrics.pass_duration.time():
                # In a thread: a disk or a meter that hangs must not silence /metrics as well.
                picture = await asyncio.to_thread(self._observer.look)
                if picture is not None:
                    self._digest(picture)
            self._state.samples += 1
            self._alive()

    def _digest(self, picture: Picture) -> None:
        if self._state.outbox.gap is not None:
            picture = replace(picture, gaps=(*picture.gaps, self._state.outbox.gap))
        self._state.picture = picture
        alerts = self._watch.examine(picture)
        for alert in alerts:
            self._state.note(alert)
            log.log(logging.WARNING if alert.closed_at is None else logging.INFO, "%s", alert.evidence)
        events = self._observer.names.take_events() if self._observer.names is not None else []
        report = self._speaker.say(picture, events, alerts)
        if report is not None and self._reports:
            self._state.outbox.offer(report)

    def take_leave(self) -> None:
        """Hand over what no heartbeat has told of yet; it goes out now, or when the agent is back."""
        if self._state.picture is not None and self._reports:
            last_words = self._speaker.last_words(self._state.picture)
            if last_words is not None:
                self._state.outbox.offer(last_words)


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
