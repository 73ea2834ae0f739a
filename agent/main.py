"""A whole agent: sampling, delivery and exposition, started and stopped together."""

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from agent.bottlenecks.detector import BottleneckDetector
from agent.config import AgentConfig
from agent.delivery.sender import ReportSender
from agent.exposition.catalogue import AgentState
from agent.exposition.metrics import AgentMetrics
from agent.features import AgentParts, StartedFeature, load_features
from agent.reporting.messages import container_state, container_values, node_state, node_values
from agent.reporting.reporter import Reporter
from agent.sampling.node_sample import NodeSample
from agent.sampling.sampler import Sampler, Survey
from agent.sampling.ticker import ticks
from agent.sources.docker import DockerWatcher
from agent.sources.host import read_machine
from wire.address import Address, parse_address
from wire.http.hosts import is_named_after, is_own_host, machine_names
from wire.http.serving import check_address, metrics_handler, serving
from wire.messages import Report

log = logging.getLogger(__name__)

_DOCKER_TIMEOUT_SECONDS = 2.0
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
    """Ends only after an error that the agent cannot recover from, and raises it."""


@asynccontextmanager
async def running(
    config: AgentConfig, alive: Callable[[], None] = lambda: None
) -> AsyncIterator[RunningAgent]:
    """Run an agent while the block runs; `alive` is called after each sample."""
    address = parse_address(config.http.listen)
    await check_address(address, "http.listen")
    sampler = Sampler(config, persistent=True)
    state = AgentState(ReportSender(config.collector, config.storage))
    metrics = AgentMetrics(state)
    app = web.Application(middlewares=[] if config.http.web_config else [_host_check(config, address)])
    app.router.add_get("/metrics", metrics_handler(metrics.registry))
    app.router.add_get("/healthz", _healthz)
    if not address.is_loopback and not config.http.web_config:
        log.warning("anyone who can connect to %s can read this node's metrics: set http.web_config", address)
    async with (
        serving(app, address, "http.listen", config.http.web_config) as bound,
        following(sampler.names),
        AsyncExitStack() as stack,
    ):
        parts = AgentParts(node_name(config), config, sampler.names)
        features = [
            await stack.enter_async_context(feature.start(parts))
            for feature in load_features()
            if config.section(feature.settings).enabled
        ]
        state.feature_metrics += [each.collect_metrics for each in features]
        sampling = _SamplingLoop(
            config,
            sampler,
            state,
            metrics,
            features,
            alive,
            BottleneckDetector(config.bottleneck),
            Reporter(
                node_name(config),
                secrets.token_hex(8),
                config.reporting,
                config.sampling.interval_seconds,
                read_machine(str(config.host.sys)),
            ),
        )
        jobs: list[_Job] = [sampling.run, *(each.run for each in features)]
        if config.collector.enabled:
            jobs.append(state.sender.run)
        try:
            async with _background(*jobs) as work:
                yield RunningAgent(node_name(config), bound, sampler.survey(), state, work)
        finally:
            sampling.send_final_report()
            await state.sender.close()
            sampler.close()


async def sample_once(config: AgentConfig) -> Report:
    """Take one full sample over at most a second."""
    sampler = Sampler(config)
    async with following(sampler.names):
        sampler.take_sample()
        await asyncio.sleep(min(_ONCE_INTERVAL_SECONDS, config.sampling.interval_seconds))
        sample = sampler.take_sample()
    assert sample is not None, "the second call always returns a sample"
    return full_report(node_name(config), sample)


def full_report(node: str, sample: NodeSample) -> Report:
    """One sample as a full report, for people and scripts; it is never sent."""
    seconds = sample.rates.interval_seconds
    return Report(
        node=node,
        boot="-",
        sequence=1,
        at=sample.rates.unix_seconds,
        state=node_state(sample, node_values(sample), seconds),
        containers=tuple(
            container_state(each, container_values(each), seconds) for each in sample.containers
        ),
    )


def node_name(config: AgentConfig) -> str:
    """Name of this node."""
    return config.node or socket.gethostname()


@dataclass(frozen=True, slots=True)
class _SamplingLoop:
    """The loop that samples, detects bottlenecks and reports."""

    config: AgentConfig
    sampler: Sampler
    state: AgentState
    metrics: AgentMetrics
    features: Sequence[StartedFeature]
    alive: Callable[[], None]
    detector: BottleneckDetector
    reporter: Reporter

    async def run(self) -> None:
        async for missed in ticks(self.config.sampling.interval_seconds, time.monotonic):
            self.state.missed += missed
            with self.metrics.pass_duration.time():
                # In a thread: a disk or a meter that hangs must not block /metrics.
                sample = await asyncio.to_thread(self.sampler.take_sample)
                if sample is not None:
                    self._process(sample)
            self.state.samples += 1
            self.alive()

    def _process(self, sample: NodeSample) -> None:
        if (gap := self.state.sender.spool.gap) is not None:
            sample = msgspec.structs.replace(sample, gaps=(*sample.gaps, gap))
        self.state.sample = sample
        alerts = self.detector.update(sample)
        self.state.alerts = frozenset(alert.resource for alert in self.detector.open_alerts)
        for alert in alerts:
            log.log(logging.WARNING if alert.closed_at is None else logging.INFO, "%s", alert.evidence)
        names = self.sampler.names
        events, images = ([], None) if names is None else (names.take_events(), names.images)
        additions = [added for each in self.features if (added := each.take_addition()) is not None]
        report = self.reporter.report(sample, events, alerts, images, additions)
        if report is not None and self.config.collector.enabled:
            self.state.sender.enqueue(report)

    def send_final_report(self) -> None:
        """Enqueue the samples since the last heartbeat; sent now, or after the next start of the agent."""
        if self.state.sample is not None and self.config.collector.enabled:
            final_report = self.reporter.final_report(self.state.sample)
            if final_report is not None:
                self.state.sender.enqueue(final_report)


@asynccontextmanager
async def following(names: DockerWatcher | None) -> AsyncIterator[None]:
    """Follow the engine while the block runs, after a short wait, so that the first report contains names."""
    if names is None:
        yield
        return
    async with _background(names.run):
        with suppress(TimeoutError):
            await asyncio.wait_for(names.listed.wait(), _DOCKER_TIMEOUT_SECONDS)
        yield


@asynccontextmanager
async def _background(*jobs: _Job) -> AsyncIterator[asyncio.Task[None]]:
    """Run jobs while the block runs, then cancel them; the yielded task raises the error of a failed job."""

    async def run_all() -> None:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job())

    task = asyncio.create_task(run_all())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _host_check(config: AgentConfig, address: Address) -> Middleware:
    """Reject requests for a foreign Host name, against DNS rebinding; a password protects as well."""
    names = config.http.other_names | machine_names() | {node_name(config).lower()}

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get(hdrs.HOST, "")
        is_known = not address.is_loopback and is_named_after(host, machine_names())
        if not is_known and not is_own_host(host, names, local_only=address.is_loopback):
            raise web.HTTPForbidden(
                text=f"the Host header {host!r} is not a name of this agent: use its host name or address, or"
                " add the name to http.names\n"
            )
        return await handler(request)

    return middleware


async def _healthz(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})
