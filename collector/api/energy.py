"""Energy: joules of any period, by who drew them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from collector.api.paging import Paged, Pager
from collector.api.periods import DAY_SECONDS, End, Start, bounds
from collector.core.parts import Core
from collector.history.interface import Account, GroupBy
from collector.web.routes import NO_HISTORY, Route, get

_LABEL = "label:"


class Energy(msgspec.Struct, frozen=True, kw_only=True):
    """A page of accounts, the most first; or day by day."""

    start: float
    end: float
    by: str
    accounts: list[Account]
    next: str | None
    """The cursor to the rest; null at the end. It goes with this `start` and `end`."""


class EnergyQuery(Paged, frozen=True, kw_only=True):
    """Whose energy is asked for, and of which time."""

    start: Start = None
    end: End = None
    by: Annotated[
        str,
        Meta(
            pattern="^(node|container|service|day|label:.+)$",
            description="What to add it up by: `node`, `container`, `service`, `day` (UTC), or `label:KEY`.",
        ),
    ] = "node"


def _place(account: Account) -> tuple[float, str, str]:
    return -account.joules, account.key or "", account.node or ""


_most_first: Pager[Account, tuple[float, str, str]] = Pager(_place, tuple[float, str, str])
_by_day: Pager[Account, tuple[str]] = Pager(lambda account: (account.key or "",), tuple[str])


async def energy(core: Core, query: EnergyQuery) -> Energy:
    """What was drawn: in the last day, unless it is said otherwise."""
    start, end = bounds(query.start, query.end, core.clock(), usual_seconds=DAY_SECONDS)
    if query.by.startswith(_LABEL):
        by, label = GroupBy.LABEL, query.by.removeprefix(_LABEL)
    else:
        by, label = GroupBy(query.by), None
    found = await core.history.energy(start, end, by, label)
    accounts, after = _by_day.page(found, query) if by is GroupBy.DAY else _most_first.page(found, query)
    return Energy(start=start, end=end, by=query.by, accounts=accounts, next=after)


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/energy",
        "Joules of any period by node, container, service, label or day, idle power apart: of the last day,"
        " unless told otherwise.",
        Energy,
        energy,
        query=EnergyQuery,
        refusals=NO_HISTORY,
    ),
)
