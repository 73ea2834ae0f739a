"""The way in: reports are parsed once, kept, and only then acknowledged.

Clocks are the nodes' own and may be wrong; no report is refused for the time it bears. Its `at` is kept
as it is and used against other times of the same node; whether a node is alive, and when a sample is too old
to keep, goes by the collector's clock.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web

from collector.body import JSON_TYPE, parse_body, read_body
from collector.core import Core, Kind, Outcome
from collector.refusal import Refusal
from collector.usage import slot_of
from wire.messages import Receipt, Report, encode, parse_batch

_BITE = 20


async def take_reports(core: Core, request: web.Request) -> web.Response:
    """Keep a batch of reports for good, then say how many of them were new."""
    with core.tally.ingest_duration.time():
        received_at = core.clock()
        try:
            reports = parse_reports(await read_body(core, request))
        except (Refusal, web.HTTPException):
            core.tally.reports[Outcome.REFUSED] += 1
            raise
        new = await core.history.add(reports, received_at)
        for report, is_new in zip(reports, new, strict=True):
            core.tally.reports[Outcome.TAKEN if is_new else Outcome.KNOWN] += 1
            if is_new:
                core.tally.taken[_kind(report)] += 1
                core.tally.sequence_gaps += core.registry.apply(report, received_at)
                await _count_usage(core, report, received_at)
        receipt = Receipt(taken=sum(new), known=len(new) - sum(new), server_time=core.clock())
        return web.Response(body=encode(receipt), content_type=JSON_TYPE)


async def _count_usage(core: Core, report: Report, received_at: float) -> None:
    """Add up the histograms of a heartbeat, in bites that nobody else has to wait for."""
    if report.heartbeat is None:
        return
    slot, usage = slot_of(report.at, received_at), report.heartbeat.usage
    for start in range(0, len(usage), _BITE):
        core.registry.count_usage(report.node, slot, usage[start : start + _BITE])
        await asyncio.sleep(0)


def _kind(report: Report) -> Kind:
    if report.heartbeat is not None:
        return Kind.HEARTBEAT
    parts = (report.state, report.containers, report.gone, report.events, report.alerts)
    return Kind.NEWS if any(parts) else Kind.BEACON


def parse_reports(body: bytes) -> Sequence[Report]:
    """The reports of a request; raises `Refusal` naming the field that is wrong."""
    reports = parse_body(body, parse_batch)
    for number, report in enumerate(reports):
        seen: set[str] = set()
        for place, container in enumerate(report.containers):
            if container.id in seen:
                where = f"$[{number}].containers[{place}].id"
                raise Refusal(
                    HTTPStatus.BAD_REQUEST, f"this container stands in the report twice - at `{where}`", where
                )
            seen.add(container.id)
    return reports
