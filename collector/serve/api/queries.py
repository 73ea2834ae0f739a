"""Parameters that several routes share: pages, search and order, labels, periods.

A cursor holds the sort key of the last entry, not an offset: if entries are added or removed between two
pages, no other entry is repeated or skipped. Only lists in an order that changes all the time, such as by
power, use offsets.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from collector.common.errors import ApiError

Item = TypeVar("Item")
SortKey = TypeVar("SortKey", bound=tuple[Any, ...])

MAX_LIMIT = 1000


class PageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of every list."""

    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100
    """Maximum number of entries; `next` is the cursor of the rest."""
    cursor: str | None = None
    """The `next` of the previous page. Without it, the list starts at the beginning."""


class TableQuery(PageQuery, frozen=True, kw_only=True):
    """Parameters of a list that can be searched and sorted."""

    search: Annotated[str, Meta(max_length=500)] | None = None
    """Only entries that contain this text; case does not matter."""
    reverse: bool = False
    """Reverse the order: the highest first, or from Z to A. Unknown values come last."""
    offset: Annotated[int, Meta(ge=0, le=10**9, description="Number of entries to skip.")] = 0


class Pager(Generic[Item, SortKey]):
    """Splits a sorted list into pages."""

    def __init__(self, key_of: Callable[[Item], SortKey], shape: Any) -> None:  # noqa: ANN401 - a generic tuple is no `type`
        """`key_of` returns a unique sort key; `shape` is its type."""
        self._key_of = key_of
        self._decoder: msgspec.json.Decoder[SortKey] = msgspec.json.Decoder(shape)

    def after(self, query: PageQuery) -> SortKey | None:
        """The sort key to start after; raises `ApiError` for an invalid cursor."""
        if query.cursor is None:
            return None
        try:
            padded = query.cursor + "=" * (-len(query.cursor) % 4)
            return self._decoder.decode(urlsafe_b64decode(padded.encode("ascii")))
        except (binascii.Error, UnicodeError, msgspec.DecodeError) as error:
            detail = "cursor: not a cursor of this list; omit it to start at the beginning"
            raise ApiError(HTTPStatus.BAD_REQUEST, detail, "cursor") from error

    def page(self, ordered: Iterable[Item], query: PageQuery) -> tuple[list[Item], str | None]:
        """One page of the sorted items, and the cursor of the next page, if there is one."""
        after = self.after(query)
        rest = ordered if after is None else (item for item in ordered if self._key_of(item) > after)
        found = list(islice(rest, query.limit + 1))
        if len(found) <= query.limit:
            return found, None
        return found[: query.limit], _cursor(self._key_of(found[query.limit - 1]))


def _cursor(key: tuple[Any, ...]) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode("ascii").rstrip("=")


SortValue = float | str
"""The value of an entry that a list is sorted by: a number for all entries, or a text for all."""
_BY_POSITION: Pager[tuple[int, Any], tuple[int]] = Pager(lambda match: (match[0],), tuple[int])


def sort_page(
    items: Sequence[Item], value_of: Callable[[Item], SortValue | None] | None, query: TableQuery
) -> tuple[list[Item], str | None]:
    """One page of the items in the order of a value, and the cursor of the next page, if there is one.

    Items with equal values keep their order; None is unknown. Without `value_of`, all items keep their order.
    """
    if value_of is None:
        return position_page(items, query)
    values: list[Any] = [value_of(item) for item in items]
    known = [place for place, value in enumerate(values) if value is not None]
    # Sorting fifty thousand numbers is fast; tuples take twenty times as long to compare.
    known.sort(key=values.__getitem__, reverse=query.reverse)
    known += [place for place, value in enumerate(values) if value is None]
    page, after = position_page(known, query)
    return [items[place] for place in page], after


def position_page(ordered: Sequence[Item], query: TableQuery) -> tuple[list[Item], str | None]:
    """One page of items in an order that changes, and the cursor of the next page, if there is one."""
    places, after = page_places(len(ordered), query)
    return [ordered[place] for place in places], after


def page_places(size: int, query: TableQuery) -> tuple[range, str | None]:
    """The places of one page of a list of this size, and the cursor of the next page, if there is one."""
    after = _BY_POSITION.after(query)
    start = query.offset if after is None else max(query.offset, after[0] + 1)
    page = range(size)[start : start + query.limit]
    return page, _cursor((page[-1],)) if page and page[-1] + 1 < size else None


def has_label(selector: str) -> Callable[[Mapping[str, str]], bool]:
    """A predicate on labels: has this one (`KEY`), or has it with this value (`KEY=VALUE`)."""
    key, equals, value = selector.partition("=")
    return lambda labels: labels.get(key) == value if equals else key in labels


DAY_SECONDS = 86_400.0
MAX_DAYS = 1100
_MAX_TIME = 253_402_300_799.0
"""The end of the year 9999."""

Time = Annotated[float, Meta(ge=0, le=_MAX_TIME)]


Start = Annotated[
    Time | None,
    Meta(description="Start of the period, in Unix time. The summary of the route names the default."),
]
End = Annotated[Time | None, Meta(description="End of the period (exclusive), in Unix time; default: now.")]


def resolve_period(
    start: float | None, end: float | None, now: float, default_seconds: float
) -> tuple[float, float]:
    """Complete a period by its defaults; raises `ApiError` if it is empty or too long."""
    end = now if end is None else end
    start = max(0.0, end - default_seconds) if start is None else start
    if not start < end:
        raise ApiError(
            HTTPStatus.BAD_REQUEST, f"start: {start:.0f} is not before the end, {end:.0f}", "start"
        )
    if end - start > MAX_DAYS * DAY_SECONDS:
        detail = f"start: the period is longer than {MAX_DAYS} days; request a shorter one"
        raise ApiError(HTTPStatus.BAD_REQUEST, detail, "start")
    return start, end
