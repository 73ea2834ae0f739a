"""What features add to a snapshot."""

from collections.abc import Collection, Sequence
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray


class SnapshotPart:
    """What a feature adds to a snapshot. Immutable, as the snapshot is; found by its type.

    It is stored with the snapshot if the feature lists its type: a dataclass of columns and simple values.
    """

    __slots__ = ()

    def with_waiting(self, tasks: Sequence[str]) -> Self:  # noqa: ARG002 - nothing by default
        """The part of a snapshot with further tasks after all others, which wait: their ids."""
        return self

    def decides_about(self, tasks: Sequence[str]) -> Collection[str]:  # noqa: ARG002 - nothing by default
        """Those of these pending tasks of an orchestrator that the collector starts, instead of it."""
        return ()

    def decided(self) -> NDArray[np.bool_] | None:
        """The tasks of the snapshot that a policy which keeps promises decides about; None if none."""
        return None


AnyPart = TypeVar("AnyPart", bound=SnapshotPart)
