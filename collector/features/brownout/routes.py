"""Optional services that are stopped."""

import msgspec

from collector.api.control import control_of
from collector.core.parts import Core
from collector.features.brownout.controllers import Brownout
from collector.web.routes import NoQuery, Route, get


class BrownedOut(msgspec.Struct, frozen=True, kw_only=True):
    """An optional service that is stopped because resources are short."""

    service: str
    weight: float
    """Value of the label `wattpack.weight`: the lowest weight stops first and starts last."""
    replicas: int
    """Number of replicas when it starts again."""
    nodes: tuple[str, ...]
    """Nodes that it ran on."""
    since: float
    """Unix time at which it was stopped."""
    why: str
    """The shortage that stopped it."""
    waits_for: str
    """Why it does not start yet."""


class BrownoutList(msgspec.Struct, frozen=True):
    """Optional services that are stopped, in the order in which they start again."""

    stopped: list[BrownedOut]
    """The first one starts first."""


async def brownout(core: Core, _query: NoQuery) -> BrownoutList:
    """List stopped services."""
    return BrownoutList(
        [
            BrownedOut(
                service=each.name,
                weight=each.weight,
                replicas=each.replicas,
                nodes=tuple(each.used),
                since=each.since,
                why=each.why,
                waits_for=waits_for,
            )
            for each, waits_for in control_of(core).controller(Brownout).stopped
        ]
    )


ROUTES: tuple[Route, ...] = (
    get(
        "/v1/brownout",
        "List optional services that are stopped because resources are short.",
        BrownoutList,
        brownout,
        query=NoQuery,
    ),
)
