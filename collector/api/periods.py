"""Stretches of time that can be asked about."""

from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta

from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.history.interface import Series, SubjectKind

DAY_SECONDS = 86_400.0
LONGEST_DAYS = 1100
_LAST = 253_402_300_799.0
"""The end of the year 9999: what comes later is a slip."""
_MOST_STEPS = 2000

Moment = Annotated[float, Meta(ge=0, le=_LAST)]


Start = Annotated[
    Moment | None,
    Meta(description="From this Unix time on; without it, so long before the end as is usual here."),
]
End = Annotated[Moment | None, Meta(description="Until before this Unix time; without it, now.")]


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Of which time a history is asked for, and how fine."""

    start: Start = None
    end: End = None
    step_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=DAY_SECONDS * 31,
            description="A point per so much time; more where that would be too many.",
        ),
    ] = 60.0


def bounds(start: float | None, end: float | None, now: float, usual_seconds: float) -> tuple[float, float]:
    """The whole period; raises `ApiError` where nothing is between its ends, or more than is ever kept."""
    end = now if end is None else end
    start = max(0.0, end - usual_seconds) if start is None else start
    if not start < end:
        raise ApiError(
            HTTPStatus.BAD_REQUEST, f"start: {start:.0f} is not before the end, {end:.0f}", "start"
        )
    if end - start > LONGEST_DAYS * DAY_SECONDS:
        detail = f"start: that is more than {LONGEST_DAYS} days before the end: ask about less at a time"
        raise ApiError(HTTPStatus.BAD_REQUEST, detail, "start")
    return start, end


async def series(core: Core, kind: SubjectKind, name: str, query: HistoryQuery) -> Series:
    """One history: of the last hour, unless it is said otherwise."""
    start, end = bounds(query.start, query.end, core.clock(), usual_seconds=3600.0)
    # Coarse enough that long times are told from rollups, whatever was asked for.
    step_seconds = max(query.step_seconds, (end - start) / _MOST_STEPS)
    return await core.history.series(kind, name, start, end, step_seconds)
