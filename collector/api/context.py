"""What the handlers of the API work with."""

from dataclasses import dataclass, fields
from typing import Any

from collector.control.loop import ControlLoop
from collector.core.parts import Core


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Core):
    """A running collector as its API sees it: the core, and the control loop beside it.

    A handler that needs no more than the core takes a `Core`.
    """

    control: ControlLoop

    @classmethod
    def of(cls, core: Core, control: ControlLoop) -> "Api":
        """The same core, with its control loop."""
        parts: dict[str, Any] = {each.name: getattr(core, each.name) for each in fields(Core)}
        return cls(**parts, control=control)
