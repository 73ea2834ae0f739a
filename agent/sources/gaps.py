"""Sources that stand alone: one that breaks is a gap, and the others are read all the same."""

from collections.abc import Callable
from typing import TypeVar

from wire.messages import Gap

Value = TypeVar("Value")
Other = TypeVar("Other")


class GapRecorder:
    """Reads sources for one pass, and notes which of them failed."""

    def __init__(self) -> None:
        self.failures: list[Gap] = []

    def read(self, what: str, source: Callable[[], Value], otherwise: Other) -> Value | Other:
        """What the source gives, or `otherwise`."""
        try:
            return source()
        except Exception as error:  # noqa: BLE001 - whatever ails one source must not silence the others
            self.failures.append(Gap(what, f"cannot be read ({type(error).__name__}: {error})"))
            return otherwise
