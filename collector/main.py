"""The complete collector: creates its parts from the settings, and runs them."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf

from aiohttp import web

from collector.act.drivers.interface import Driver
from collector.act.drivers.table import open_driver
from collector.act.journal import open_journal
from collector.act.lease import lease_path
from collector.act.loop import acting, controlling
from collector.act.orchestrator_state import CompletedActions
from collector.common.clocks import Clock, SteadyClock, report_jump
from collector.common.errors import HistoryUnavailable
from collector.common.extensions import extensions
from collector.common.outages import Dependency, Outages
from collector.common.periodic import in_background, repeat
from collector.config import CollectorConfig
from collector.history.promql import connect
from collector.history.sqlite.files.damage import damage_marker
from collector.history.sqlite.history import open_history
from collector.observe.limits.node_account import Limit
from collector.observe.registry import Registry
from collector.observe.windows import BUCKET_SECONDS, BUCKETS
from collector.runtime.admission import recording_shortages, restore_shortages
from collector.runtime.analysis import AnalysisJob, analysing, restored_analysis
from collector.runtime.parts import Core, ReportOutcome
from collector.runtime.retention import retention
from collector.runtime.revocation import Revocations
from collector.runtime.tariff import open_tariffs
from collector.runtime.traits import storing_traits
from collector.runtime.worker import Worker, child_process
from collector.serve.api.control import Api
from collector.serve.api.events import publishing_changes
from collector.serve.api.joining import remembering_names
from collector.serve.api.metrics import REGISTRY, metrics_registry
from collector.serve.api.table import ROUTES
from collector.serve.web.auth import authentication, open_listener
from collector.serve.web.backpressure import BACKPRESSURE, Backpressure
from collector.serve.web.bodies import COUNT_BYTES, HTTP_LIMITS
from collector.serve.web.middleware import host_check, problem_documents
from collector.serve.web.routes import Route
from collector.serve.web.scopes import CALLER, Scope
from collector.serve.web.tokens import TokenFile, revoked_nodes
from wire.address import Address, parse_address
from wire.http.connections import ConnectionLimits
from wire.http.serving import Handler, check_address, serving

_CLOCK_SECONDS = 5.0
_NODES_AT_ONCE = 4
_NODES_PER_NOTICE = 100
_RESTORING = "reports and hints wait until the usage of containers is restored after the start"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningCollector:
    """A collector that accepts requests."""

    address: Address
    core: Core
    analysis: AnalysisJob


@asynccontextmanager
async def running(
    config: CollectorConfig,
    *,
    clock: Clock | None = None,
    driver: Driver | None = None,
    is_separate: bool = False,
) -> AsyncIterator[RunningCollector]:
    """Run a collector while the block runs. Raise `UserError` if it cannot start.

    `driver` replaces the driver of the settings. Analyses and plans run in a thread, or in a process of
    their own.
    """
    async with AsyncExitStack() as stack:
        start = partial(_running, config, clock=clock, driver=driver, is_separate=is_separate)
        try:
            collector = await stack.enter_async_context(start())
        except HistoryUnavailable:
            if not damage_marker(config.history.path).exists():
                raise
            # The history was found to be damaged when the start read it: opening it again repairs it.
            collector = await stack.enter_async_context(start())
        yield collector


@asynccontextmanager
async def _running(
    config: CollectorConfig, *, clock: Clock | None, driver: Driver | None, is_separate: bool
) -> AsyncIterator[RunningCollector]:
    clock = SteadyClock() if clock is None else clock
    listener = open_listener(config)
    listen = parse_address(config.http.listen)
    limits = ConnectionLimits.of_process(authenticates=listener.tokens is not None)
    await check_address(listen, "http.listen")
    outages = Outages()
    async with (
        open_history(config, outages) as history,
        open_tariffs(config) as tariffs,
        child_process(outages) if is_separate else nullcontext(Worker()) as worker,
    ):
        registry = Registry(config, socket.gethostname())
        core = Core(config, registry, history, clock, outages=outages, tariffs=tariffs, worker=worker)
        revocations = Revocations(core, lambda: revoked_nodes(listener.tokens))
        await revocations.restore()
        await restore(core)
        analysis = await restored_analysis(core)
        async with (
            acting(core, driver) as control,
            publishing_changes(core),
            remembering_names(core, listener.tokens),
            serving(
                make_app(Api.of(core, control), listener.tokens, limits),
                listen,
                "http.listen",
                tls=listener.tls,
                limits=limits,
            ) as address,
        ):
            await restore_usage(core, analysis, revocations)
            async with (
                revocations.watching(analysis),
                controlling(control),
                analysing(core, analysis),
                retention(core),
                storing_traits(core),
                recording_shortages(core),
                _watching_clock(core),
                _running_features(core),
            ):
                yield RunningCollector(address, core, analysis)


async def check_start(config: CollectorConfig) -> None:
    """Run the checks of a start beyond the settings themselves, without listening or writing.

    Raise `UserError` for tokens, certificates, credentials, or a driver that a start would refuse.
    """
    open_listener(config)
    async with AsyncExitStack() as stack:
        if config.store.url:
            await stack.enter_async_context(connect(config.store, "store"))
        if config.pull.url:
            await stack.enter_async_context(connect(config.pull, "pull"))
        await stack.enter_async_context(open_tariffs(config))
        driver = await stack.enter_async_context(open_driver(config.driver))
        if not driver.dry:
            lease_path(config)


@asynccontextmanager
async def _running_features(core: Core) -> AsyncIterator[None]:
    """Run the jobs of all features while the block runs."""
    async with AsyncExitStack() as stack:
        for jobs in extensions("jobs"):
            if hasattr(jobs, "running"):
                await stack.enter_async_context(jobs.running(core))
        yield


def _watching_clock(core: Core) -> AbstractAsyncContextManager[None]:
    """Report when the system clock is set, while the block runs."""
    clock = core.clock
    if not isinstance(clock, SteadyClock):
        return nullcontext()

    async def check() -> None:
        report_jump(clock, core.outages)

    core.outages.watch(Dependency.CLOCK)
    return in_background(repeat(check, _CLOCK_SECONDS, "checking the clock"))


async def restore(core: Core) -> None:
    """Restore what nodes reported last from the history; the rest is left to `restore_usage`."""
    now = core.clock()
    stored = await core.history.load_state(core.config.limits)
    journal = await open_journal(core.history, core.config.control)
    async with AsyncExitStack() as stack:
        for jobs in extensions("jobs"):
            if hasattr(jobs, "restoring"):
                await stack.enter_async_context(jobs.restoring(core))
        core.registry.add_successions(CompletedActions.of(journal.carried_out()).successions)
        for received in stored.reports:
            # After the clock was set back, a time in the future would make a dead node look alive.
            received_at = min(received.received_at, now)
            try:
                limited = core.registry.limits.apply(received.report, received_at, is_stored=True)
                core.registry.apply(limited, received_at)
            except Exception:
                log.exception("cannot restore a report of node %r", received.report.node)
            await asyncio.sleep(0)  # signals end a start, too
    core.registry.restore(stored.alerts)
    await restore_shortages(core)
    core.registry.liveness.started_at, core.registry.liveness.restored_at = now, inf
    if core.registry.names():
        core.outages.begin(Dependency.STATE, _RESTORING)


async def restore_usage(core: Core, analysis: AnalysisJob, revocations: Revocations) -> None:
    """Restore the rest: usage, windows, what features keep, and what follows from it.

    Meanwhile, the server answers what is known, and says what is not. It makes no decision, gives no hint,
    and accepts no report: agents keep theirs.
    """
    registry, names, began = core.registry, core.registry.names(), time.monotonic()
    for start in range(0, len(names), _NODES_AT_ONCE):
        if start % _NODES_PER_NOTICE == 0:
            core.outages.begin(Dependency.STATE, f"{_RESTORING} ({start} of {len(names)} nodes)")
        nodes = names[start : start + _NODES_AT_ONCE]
        registry.usage.restore(nodes, await core.history.load_usage(nodes, core.config.limits))
    registry.usage.restore_successions()
    since = registry.liveness.started_at - (BUCKETS + 1) * BUCKET_SECONDS
    windows = await core.history.load_windows(since, registry.container_ids())
    await asyncio.to_thread(registry.tables.restore_windows, windows, registry.usage.successors())
    for jobs in extensions("jobs"):
        if hasattr(jobs, "restore"):
            await jobs.restore(core)
    try:
        await revocations.run_once(analysis)
        # What was stored may be minutes old: hints wait for what is known now.
        await analysis.analyse()
    except Exception:
        log.exception("the first analysis after the start failed")
    # Nodes can report again only from now on.
    registry.liveness.restored_at = core.clock()
    core.outages.end(Dependency.STATE, f"restored the usage in {time.monotonic() - began:.1f} s")


def make_app(
    api: Api, tokens: TokenFile | None = None, limits: ConnectionLimits | None = None
) -> web.Application:
    """Create the web application: routes and middleware."""
    scopes = {(route.method, route.path): route.scope for route in ROUTES}
    app = web.Application(
        middlewares=[
            problem_documents(route.path for route in ROUTES),
            host_check(api.config.http),
            authentication(scopes, tokens, api.clock, limits, api.config.access.scheduler_names),
        ]
    )
    app[REGISTRY] = metrics_registry(api)
    app[HTTP_LIMITS] = api.config.http
    app[BACKPRESSURE] = Backpressure(api.config.limits, on_surplus=partial(_note_surplus, api))

    async def end_streams(_app: web.Application) -> None:
        for part in api.registry.parts:
            part.close()
        api.events.end("the collector is shutting down: reconnect later")

    app.on_shutdown.append(end_streams)
    for route in ROUTES:
        handler = _handler(api, route)
        if route.method == "GET":
            app.router.add_get(route.path, handler)
        else:
            app.router.add_route(route.method, route.path, handler)
    return app


def _note_surplus(core: Core, nodes: frozenset[str]) -> None:
    """Record that nodes exceed the rate limit."""
    core.counters.reports[ReportOutcome.DELAYED] += 1
    for node in nodes:
        core.registry.limits.refuse(node, Limit.RATE, core.clock())


def _handler(api: Api, route: Route) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if route.is_stream or route.scope is Scope.OPEN:
            return await route.serve(api, request)
        backpressure, caller = request.app[BACKPRESSURE], request[CALLER]
        async with backpressure.turn(caller):
            if route.method == "GET":
                return await route.serve(api, request)
            # On every route, the body counts until its request is answered.
            with backpressure.request(caller) as request[COUNT_BYTES]:
                return await route.serve(api, request)

    return handler
