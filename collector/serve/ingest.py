"""Push: reports from agents are parsed once, stored, and only then acknowledged.

The clock of a node may be wrong, so no report is rejected for its time stamp. `at` is stored as it is and
compared with other times of the same node; liveness and retention use the collector's clock.
"""

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web

from collector.common.errors import ApiError
from collector.history.interface import UsageKey, is_pulled
from collector.runtime.event_stream import publish_events
from collector.runtime.parts import Core, ReportKind, ReportOutcome
from collector.serve.web.backpressure import BACKPRESSURE
from collector.serve.web.bodies import JSON_TYPE, parse_body, read_body
from collector.serve.web.routes import BAD_BODY, NO_HISTORY, ResponseSpec, Route, problem
from collector.serve.web.scopes import CALLER, Caller, Scope
from wire.messages import Batch, Receipt, Report, encode, parse_batch

log = logging.getLogger(__name__)

_OUTCOMES = {True: ReportOutcome.ACCEPTED, False: ReportOutcome.DUPLICATE, None: ReportOutcome.REJECTED}


async def receive_reports(core: Core, request: web.Request) -> web.Response:
    """Store a batch of reports, then return how many of them are new."""
    with core.counters.ingest_duration.time():
        try:
            receipt = await _receive(core, request)
        except ApiError as error:
            core.counters.reports[_outcome(error)] += 1
            raise
        return web.Response(body=encode(receipt), content_type=JSON_TYPE)


async def _receive(core: Core, request: web.Request) -> Receipt:
    core.require_state()
    caller, backpressure = request[CALLER], request.app[BACKPRESSURE]
    reports = parse_reports(await read_body(request))
    check_sender(reports, caller)
    check_machine(core, reports, caller)
    with backpressure.storing(reports, caller):
        return await store_reports(core, reports)


def _outcome(error: ApiError) -> ReportOutcome:
    is_delayed = error.problem.status == HTTPStatus.TOO_MANY_REQUESTS
    return ReportOutcome.DELAYED if is_delayed else ReportOutcome.REJECTED


async def store_reports(core: Core, reports: Sequence[Report]) -> Receipt:
    """Store reports in the history, then apply the new ones to the registry."""
    core.require_state()
    received_at = core.clock()
    reports = [core.registry.limits.apply(report, received_at) for report in reports]
    with core.applied.receiving(received_at):
        new = await core.history.add(reports, received_at)
        for report, is_new in zip(reports, new, strict=True):
            core.counters.reports[_OUTCOMES[is_new]] += 1
            if is_new:
                core.counters.accepted[_kind(report)] += 1
                try:
                    await _apply(core, report, received_at)
                except Exception:
                    # It is stored and acknowledged: it does not hold up the other reports of this request.
                    log.exception("report %d of node %r was not applied", report.sequence, report.node)
    return Receipt(
        accepted=sum(is_new is True for is_new in new),
        duplicates=sum(is_new is False for is_new in new),
        rejected=sum(is_new is None for is_new in new),
        server_time=core.clock(),
    )


async def _apply(core: Core, report: Report, received_at: float) -> None:
    """Apply a stored report to the registry."""
    core.applied.add(report, received_at)
    is_ahead = core.registry.apply(report, received_at)
    # A report that was read from a store has its time as sequence number: gaps are normal there.
    core.counters.sequence_gaps += is_ahead and not is_pulled(report)
    publish_events(core.events, report)
    if report.heartbeat is not None and report.heartbeat.usage:
        # In small steps, so that other requests do not wait.
        for _ in core.registry.usage.add(UsageKey.received(report, received_at), report.heartbeat.usage):
            await asyncio.sleep(0)


def _kind(report: Report) -> ReportKind:
    if report.heartbeat is not None:
        return ReportKind.HEARTBEAT
    parts = (report.state, report.containers, report.gone, report.events, report.alerts, report.images)
    return ReportKind.CHANGE if any(parts) else ReportKind.BEACON


def check_sender(reports: Sequence[Report], caller: Caller) -> None:
    """Reject a batch with a report of a node that the token or certificate is not valid for."""
    for number, report in enumerate(reports):
        if not caller.may_report_for(report.node):
            where = f"$[{number}].node"
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                f"this token or certificate is not valid for node {report.node}. Create a token with:"
                f" wattpack token add node {report.node} - at `{where}`",
                where,
            )


def check_machine(core: Core, reports: Sequence[Report], caller: Caller) -> None:
    """Reject a batch from a machine if another machine has the name of its node."""
    now = core.clock()
    for number, report in enumerate(reports):
        where = f"$[{number}].heartbeat.machine"
        machine = None if report.heartbeat is None else report.heartbeat.machine
        if caller.machine is not None and machine not in (None, caller.machine):
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                f"this token was issued to another machine, not to the one that reports as {report.node}. Run"
                f" wattpack agent join on this machine - at `{where}`",
                where,
            )
        if core.registry.is_other_machine(report, now):
            raise ApiError(
                HTTPStatus.CONFLICT,
                f"another machine reports as {report.node}. Set another name with node in agent.toml, or stop"
                f" the agent of the other machine - at `{where}`",
                where,
            )


def parse_reports(body: bytes) -> Sequence[Report]:
    """The reports of a request; raises `ApiError` that names the invalid field."""
    reports = parse_body(body, parse_batch)
    for number, report in enumerate(reports):
        ids: set[str] = set()
        for place, container in enumerate(report.containers):
            if container.id in ids:
                where = f"$[{number}].containers[{place}].id"
                raise ApiError(
                    HTTPStatus.BAD_REQUEST, f"the report lists this container twice - at `{where}`", where
                )
            ids.add(container.id)
    return reports


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/reports",
        summary="Send reports of agents. A report that is already stored is acknowledged, without effect.",
        serve=receive_reports,
        body=Batch,
        scope=Scope.NODE,
        responses={
            HTTPStatus.OK: ResponseSpec("All reports are on disk.", Receipt),
            **BAD_BODY,
            **problem(HTTPStatus.BAD_REQUEST, "The batch is invalid; none of it is stored."),
            **problem(
                HTTPStatus.FORBIDDEN,
                "The token or certificate is not valid for a node in the batch, or the Host header is not a"
                " name of the collector.",
            ),
            **problem(HTTPStatus.CONFLICT, "Another machine reports under the name of a node in the batch."),
            **problem(HTTPStatus.TOO_MANY_REQUESTS, "The collector is overloaded; retry after Retry-After."),
            **NO_HISTORY,
        },
    ),
)
