"""The way in: reports are parsed once, kept, and only then acknowledged.

Clocks are the nodes' own and may be wrong; no report is refused for the time it bears. Its `at` is kept
as it is and used against other times of the same node; whether a node is alive, and when a sample is too old
to keep, goes by the collector's clock.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web

from collector.analysis.usage import slot_of
from collector.common.errors import ApiError
from collector.core.events import publish_events
from collector.core.parts import Core, ReportKind, ReportOutcome
from collector.history.interface import UsageKey
from collector.history.prometheus.reader import is_pulled
from collector.web.backpressure import BACKPRESSURE
from collector.web.bodies import JSON_TYPE, parse_body, read_body
from collector.web.scopes import CALLER, Caller
from wire.messages import ContainerUsage, Receipt, Report, encode, parse_batch


async def take_reports(core: Core, request: web.Request) -> web.Response:
    """Keep a batch of reports for good, then say how many of them were new."""
    with core.counters.ingest_duration.time():
        try:
            receipt = await _take(core, request)
        except ApiError as refusal:
            core.counters.reports[_outcome(refusal)] += 1
            raise
        return web.Response(body=encode(receipt), content_type=JSON_TYPE)


async def _take(core: Core, request: web.Request) -> Receipt:
    caller, backpressure = request[CALLER], request.app[BACKPRESSURE]
    with backpressure.request(caller) as on_bytes:
        body = await read_body(request, on_bytes=on_bytes)
        reports = parse_reports(body)
        check_speaker(reports, caller)
        with backpressure.storing(reports):
            return await keep(core, reports)


def _outcome(refusal: ApiError) -> ReportOutcome:
    delayed = refusal.problem.status == HTTPStatus.TOO_MANY_REQUESTS
    return ReportOutcome.DELAYED if delayed else ReportOutcome.REFUSED


async def keep(core: Core, reports: Sequence[Report]) -> Receipt:
    """Keep reports for good, then know them."""
    received_at = core.clock()
    new = await core.history.add(reports, received_at)
    for report, is_new in zip(reports, new, strict=True):
        core.counters.reports[ReportOutcome.TAKEN if is_new else ReportOutcome.KNOWN] += 1
        if is_new:
            core.counters.taken[_kind(report)] += 1
            is_ahead = core.registry.apply(report, received_at)
            # What is read from a store is numbered by its time, so there is no telling what lies between.
            core.counters.sequence_gaps += is_ahead and not is_pulled(report)
            publish_events(core.events, report)
            if report.heartbeat is not None and report.heartbeat.usage:
                word = UsageKey(report.node, report.boot, report.sequence, slot_of(report.at, received_at))
                await _count_usage(core, word, report.heartbeat.usage)
    return Receipt(accepted=sum(new), duplicates=len(new) - sum(new), rejected=0, server_time=core.clock())


async def _count_usage(core: Core, word: UsageKey, usage: Sequence[ContainerUsage]) -> None:
    """Add up the histograms of a heartbeat, in bites that nobody else has to wait for."""
    for _ in core.registry.add_usage(word, usage):
        await asyncio.sleep(0)


def _kind(report: Report) -> ReportKind:
    if report.heartbeat is not None:
        return ReportKind.HEARTBEAT
    parts = (report.state, report.containers, report.gone, report.events, report.alerts)
    return ReportKind.NEWS if any(parts) else ReportKind.BEACON


def check_speaker(reports: Sequence[Report], caller: Caller) -> None:
    """Refuse a batch in which somebody speaks for a node that is not theirs."""
    for number, report in enumerate(reports):
        if not caller.may_report_for(report.node):
            where = f"$[{number}].node"
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                f"this token or certificate is not valid for node {report.node}. Create a token with:"
                f" wattpack token add node {report.node} - at `{where}`",
                where,
            )


def parse_reports(body: bytes) -> Sequence[Report]:
    """The reports of a request; raises `ApiError` naming the field that is wrong."""
    reports = parse_body(body, parse_batch)
    for number, report in enumerate(reports):
        seen: set[str] = set()
        for place, container in enumerate(report.containers):
            if container.id in seen:
                where = f"$[{number}].containers[{place}].id"
                raise ApiError(
                    HTTPStatus.BAD_REQUEST, f"this container stands in the report twice - at `{where}`", where
                )
            seen.add(container.id)
    return reports
