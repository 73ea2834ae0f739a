"""Optional services that are stopped."""

import msgspec

from collector.features.brownout.controllers import Brownout
from collector.features.brownout.rule import StoppedService
from collector.serve.api.control import Api
from collector.serve.web.routes import Route, get


class BrownoutList(msgspec.Struct, frozen=True):
    """Optional services that are stopped, in the order in which they start again."""

    stopped: list[StoppedService]
    """The first one starts first."""


async def brownout(api: Api) -> BrownoutList:
    """List optional services that are stopped because resources are short."""
    return BrownoutList(api.control.controller(Brownout).stopped)


ROUTES: tuple[Route, ...] = (get("/v1/brownout", brownout),)
