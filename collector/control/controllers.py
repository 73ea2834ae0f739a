"""What the control loop runs in each round beside its policies: controllers, which features add."""

from contextlib import AsyncExitStack
from typing import ClassVar, TypeVar

from collector.control.actor import Actor
from collector.policies.resolve import PolicyChoice


class Controller:
    """Decides about one aspect of the cluster, and acts through the planner and the executor."""

    is_before_timer: ClassVar[bool] = False
    """Whether it runs before the timer policy; otherwise it runs last."""

    def __init__(self, actor: Actor) -> None:
        raise NotImplementedError

    async def start(self, stack: AsyncExitStack) -> None:
        """Load the stored state, and open what stays open while the control loop runs."""

    async def run(self, alert_policy: PolicyChoice | None) -> bool:
        """Decide and act; return whether the round ends here, so that the effect can show."""
        raise NotImplementedError


AnyController = TypeVar("AnyController", bound=Controller)
