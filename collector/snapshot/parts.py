"""What features add to a snapshot."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray


class SnapshotPart:
    """What a feature adds to a snapshot. Immutable, as the snapshot is; found by its type."""

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


@dataclass(frozen=True, slots=True)
class PartCodec(Generic[AnyPart]):
    """How a part is stored with a snapshot."""

    key: str
    kind: type[AnyPart]
    pack: Callable[[AnyPart], Any]
    """A value that msgpack encodes."""
    unpack: Callable[[Any], AnyPart]
