"""Isolates sources: one that fails becomes a gap, and the others are still read."""

from collections.abc import Callable
from typing import TypeVar

from wire.messages import Gap

Value = TypeVar("Value")
Other = TypeVar("Other")


class GapRecorder:
    """Reads sources for one pass, and records which of them failed."""

    def __init__(self) -> None:
        self.failures: list[Gap] = []

    def read(self, what: str, source: Callable[[], Value], otherwise: Other) -> Value | Other:
        """The value of the source, or `otherwise` if it fails."""
        try:
            return source()
        except Exception as error:  # noqa: BLE001 - one failed source must not stop the others
            self.failures.append(Gap(what, f"cannot be read ({type(error).__name__}: {error})"))
            return otherwise
