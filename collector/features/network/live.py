"""What the feature keeps about the cluster now."""

from collections.abc import Sequence

from collector.config import CollectorConfig
from collector.features.network.applications.claims import ApplicationBuilder
from collector.features.network.applications.images import ImageTable, references_of
from collector.features.network.mesh.mesh import Mesh
from collector.observe.agent_run import NodeChanges
from collector.observe.parts import LivePart
from collector.snapshot.tables import Snapshot
from wire.messages import ContainerState, Report

_NO_IMAGES: frozenset[str] = frozenset()


class NodeImages(LivePart):
    """The images that nodes report."""

    def __init__(self, config: CollectorConfig) -> None:
        super().__init__(config)
        self.references: dict[str, frozenset[str]] = {}
        """By node."""
        self.unsaved: set[str] = set()
        """Nodes whose images have changed, or that are gone, since they were stored."""
        self._last = ImageTable(references=())

    def apply(
        self,
        report: Report,
        received_at: float,  # noqa: ARG002
        changes: NodeChanges,
        new: Sequence[ContainerState],  # noqa: ARG002
    ) -> None:
        if changes.images is not None:
            self.put(report.node, references_of(changes.images))

    def put(self, node: str, references: frozenset[str]) -> None:
        """Set the references of the images of a node."""
        if references != self.references.get(node, _NO_IMAGES):
            self.references[node] = references
            self.unsaved.add(node)

    def remove(self, node: str) -> None:
        if self.references.pop(node, None) is not None:
            self.unsaved.add(node)

    def snapshot_part(self, snapshot: Snapshot) -> ImageTable | None:
        """The images of the nodes of a snapshot, the same object until they change; None without any."""
        if not self.references:
            return None
        references = tuple(self.references.get(each, _NO_IMAGES) for each in snapshot.nodes.names)
        if references != self._last.references:
            self._last = ImageTable(references=references)
        return self._last


LIVE = (Mesh, ApplicationBuilder, NodeImages)
