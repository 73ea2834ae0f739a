from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.common.errors import ApiError
from collector.serve.api.queries import PageQuery, Pager, has_label
from tests.collector.builders import Client, container, report

Entry = tuple[str, float]
PAGER: Pager[Entry, Entry] = Pager(lambda entry: entry, tuple[str, float])
entries = st.sets(st.tuples(st.text(), st.floats(allow_nan=False, allow_infinity=False)))


def walked(ordered: list[Entry], limit: int) -> list[Entry]:
    listed: list[Entry] = []
    cursor: str | None = None
    while True:
        page, cursor = PAGER.page(ordered, PageQuery(limit=limit, cursor=cursor))
        assert len(page) <= limit
        listed += page
        if cursor is None:
            return listed
        assert len(page) == limit


@given(entries, st.integers(1, 7))
def test_pages_contain_every_entry_once_and_in_order(found: set[Entry], limit: int) -> None:
    assert walked(sorted(found), limit) == sorted(found)


@given(entries, entries, st.integers(1, 5))
def test_changes_between_pages_affect_no_other_entry(
    before: set[Entry], after: set[Entry], limit: int
) -> None:
    first, cursor = PAGER.page(sorted(before), PageQuery(limit=limit))
    if cursor is None:
        return
    second, _ = PAGER.page(sorted(after), PageQuery(limit=1000, cursor=cursor))
    assert second == [entry for entry in sorted(after) if entry > first[-1]]


@pytest.mark.parametrize("cursor", ["", "?", "é", "bm8", "WzFd", "WyJhIiwiYiJd", "x" * 5000])
def test_invalid_cursor_is_an_error(cursor: str) -> None:
    with pytest.raises(ApiError) as refused:
        PAGER.page([], PageQuery(cursor=cursor))
    assert refused.value.problem.status == HTTPStatus.BAD_REQUEST
    assert refused.value.problem.field == "cursor"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("tier", True), ("tier=web", True), ("tier=", False), ("tie", False), ("empty=", True), ("a=b=c", True)],
)
def test_label_selector_matches_key_or_value(asked: str, expected: bool) -> None:  # noqa: FBT001 - a column
    assert has_label(asked)({"tier": "web", "empty": "", "a": "b=c"}) is expected


@pytest.mark.parametrize(("path", "key"), [("/v1/nodes", "nodes"), ("/v1/containers", "containers")])
async def test_lists_are_paged_over_http(collector: Client, path: str, key: str) -> None:
    for node in ("gamma", "alpha", "beta"):
        await collector.send(report(node, containers=[container(f"{name}-{node}") for name in "cab"]))
    _, whole = await collector.ask(path)
    assert whole["next"] is None
    listed: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        _, page = await collector.ask(f"{path}?limit=2" + (f"&cursor={cursor}" if cursor else ""))
        listed += page[key]
        cursor = page["next"]
    assert listed == whole[key]
