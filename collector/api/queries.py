"""Lists, a page at a time.

A cursor holds the place of the last entry in the order of the list, not a number of entries: what comes or
goes between two pages moves nothing, so nobody is told twice and nobody is left out.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from collector.common.errors import ApiError
from collector.core.parts import Core
from collector.history.interface import Series, SubjectKind

Item = TypeVar("Item")
Place = TypeVar("Place", bound=tuple[Any, ...])

MOST = 1000


class Paged(msgspec.Struct, frozen=True, kw_only=True):
    """How every list is asked for."""

    limit: Annotated[
        int, Meta(ge=1, le=MOST, description="No more than so many; `next` then leads to the rest.")
    ] = 100
    cursor: Annotated[
        str | None,
        Meta(description="The `next` of the answer before: go on from there. Without it, from the start."),
    ] = None


class Pager(Generic[Item, Place]):
    """One order in which entries are told, and the way to go on in it."""

    def __init__(self, place_of: Callable[[Item], Place], shape: Any) -> None:  # noqa: ANN401 - a generic tuple is no `type`
        """`place_of` says where an entry stands, and no two stand alike; `shape` is the type of a place."""
        self._place_of = place_of
        self._decoder: msgspec.json.Decoder[Place] = msgspec.json.Decoder(shape)

    def after(self, query: Paged) -> Place | None:
        """The place after which to begin; raises `ApiError` for a cursor that nobody gave."""
        if query.cursor is None:
            return None
        try:
            padded = query.cursor + "=" * (-len(query.cursor) % 4)
            return self._decoder.decode(urlsafe_b64decode(padded.encode("ascii")))
        except (binascii.Error, UnicodeError, msgspec.DecodeError) as error:
            detail = "cursor: no answer to this question gave that one: leave it out to begin at the start"
            raise ApiError(HTTPStatus.BAD_REQUEST, detail, "cursor") from error

    def page(self, ordered: Iterable[Item], query: Paged) -> tuple[list[Item], str | None]:
        """The entries asked for, of all in their order; and the cursor to the rest, if there is any."""
        after = self.after(query)
        rest = ordered if after is None else self._beyond(ordered, after)
        found = list(islice(rest, query.limit + 1))
        if len(found) <= query.limit:
            return found, None
        return found[: query.limit], self._cursor(found[query.limit - 1])

    def _beyond(self, ordered: Iterable[Item], after: Place) -> Iterator[Item]:
        return (item for item in ordered if self._place_of(item) > after)

    def _cursor(self, last: Item) -> str:
        place = msgspec.json.encode(self._place_of(last))
        return urlsafe_b64encode(place).decode("ascii").rstrip("=")


def has_label(asked: str) -> Callable[[Mapping[str, str]], bool]:
    """Whether a label is among some (`KEY`), or is and has this value (`KEY=VALUE`)."""
    key, equals, value = asked.partition("=")
    return lambda labels: labels.get(key) == value if equals else key in labels


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
