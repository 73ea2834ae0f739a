"""What features keep about the cluster now.

The registry passes each change on to every part. A part may add to snapshots.
"""

from collections.abc import Collection, Sequence
from typing import TypeVar

from collector.common.orchestrator import OrchestratorState
from collector.config import CollectorConfig
from collector.observe.agent_run import NodeChanges
from collector.observe.updates import Succession
from collector.snapshot.parts import SnapshotPart
from collector.snapshot.tables import Snapshot
from wire.messages import ContainerState, Report


class LivePart:
    """What a feature keeps about the cluster now: made with the settings, one per registry.

    `snapshot_part` runs in any thread, everything else in that of the registry.
    """

    def __init__(self, config: CollectorConfig) -> None:
        """The settings are those of the collector."""

    def apply(
        self, report: Report, received_at: float, changes: NodeChanges, new: Sequence[ContainerState]
    ) -> None:
        """A report of the present run of a node was applied, with these changes; `new` just started."""

    def add_successions(self, successions: Sequence[Succession]) -> None:
        """Containers continue others that they replace in moves."""

    def remove(self, node: str) -> None:
        """A node was removed."""

    def put_services(self, state: OrchestratorState, now: float) -> None:
        """The state of the orchestrator: all its services, with their tasks."""

    def put_queue(self, containers: Collection[str]) -> None:
        """The containers that the collector stopped, and will start again."""

    def expect_stop(self, container: str) -> None:
        """The collector stops a container."""

    def snapshot_part(self, snapshot: Snapshot) -> SnapshotPart | None:  # noqa: ARG002 - nothing by default
        """What it adds to a new snapshot, whose own tables are complete; None if nothing."""
        return None

    def close(self) -> None:
        """The collector stops: end all waits."""


AnyLivePart = TypeVar("AnyLivePart", bound=LivePart)
