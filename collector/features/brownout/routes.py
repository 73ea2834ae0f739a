"""Optional services that are stopped."""

import msgspec

from collector.features.brownout.controllers import Brownout
from collector.features.brownout.rule import StoppedService
from collector.runtime.parts import Core
from collector.serve.api.control import control_of
from collector.serve.web.routes import Route, get


class BrownoutList(msgspec.Struct, frozen=True):
    """Optional services that are stopped, in the order in which they start again."""

    stopped: list[StoppedService]
    """The first one starts first."""


async def brownout(core: Core) -> BrownoutList:
    """List optional services that are stopped because resources are short."""
    return BrownoutList(control_of(core).controller(Brownout).stopped)


ROUTES: tuple[Route, ...] = (get("/v1/brownout", brownout),)
