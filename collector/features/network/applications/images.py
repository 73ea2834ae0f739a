"""Which node has which image, so that a container can start there without a download."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from collector.config import CollectorConfig
from collector.live.parts import LivePart
from collector.live.updates import ContainerChanges
from collector.snapshot.parts import SnapshotPart
from collector.snapshot.tables import Flags, Snapshot
from wire.messages import Report

_NO_IMAGES: frozenset[str] = frozenset()
_REGISTRY = "docker.io"
_OTHER_NAMES = ("index.docker.io", "registry-1.docker.io")


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageTable(SnapshotPart):
    """The images of each node, by any of their names: `redis` is `docker.io/library/redis:latest`."""

    references: tuple[frozenset[str], ...]
    """Per node: the references of its images."""
    _found: dict[str, Flags] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of_nodes(images: Sequence[Iterable[str]]) -> "ImageTable":
        """Build the table from the names of the images of each node, in the order of the snapshot."""
        return ImageTable(references=tuple(map(references_of, images)))

    def on_nodes(self, image: str) -> Flags:
        """Return which nodes have an image: none, if nothing is known about it."""
        found = self._found.get(image)
        if found is None:
            # With a digest, an image of the same tag may be another one.
            wanted = references(image)[0]
            has = (wanted in each for each in self.references)
            found = self._found[image] = np.fromiter(has, np.bool_, len(self.references))
        return found.copy()


class NodeImages(LivePart):
    """The images that nodes report."""

    def __init__(self, config: CollectorConfig) -> None:
        super().__init__(config)
        self._references: dict[str, frozenset[str]] = {}
        self._version = 0
        """Incremented when the images of a node change; 0 if no node reports any."""
        self._last: tuple[int, Sequence[str], ImageTable] | None = None

    def apply(self, report: Report, received_at: float, changes: ContainerChanges) -> None:
        if changes.images is not None:
            self.restore({report.node: references_of(changes.images)})

    def restore(self, images: Mapping[str, frozenset[str]]) -> None:
        """Set the references of the images of some nodes."""
        for node, references in images.items():
            if references != self._references.get(node, _NO_IMAGES):
                self._references[node] = references
                self._version += 1

    def remove(self, node: str) -> None:
        self._references.pop(node, None)

    def snapshot_part(self, snapshot: Snapshot) -> ImageTable | None:
        """The images of the nodes of a snapshot; None if no node ever reported any."""
        version, names = self._version, snapshot.nodes.names
        if not version:
            return None
        if self._last is None or self._last[:2] != (version, names):
            found = ImageTable(references=tuple(self._references.get(each, _NO_IMAGES) for each in names))
            self._last = version, names, found
        return self._last[2]


def references_of(names: Iterable[str]) -> frozenset[str]:
    """Return all references of some images."""
    return frozenset(each for name in names for each in references(name))


def references(name: str) -> tuple[str, ...]:
    """Return the references of an image: by digest if its name has one, and by tag."""
    name, _, digest = name.partition("@")
    host, slash, path = name.partition("/")
    if not slash:
        host, path = _REGISTRY, f"library/{name}"
    elif host in _OTHER_NAMES:
        host = _REGISTRY
    elif not ("." in host or ":" in host or host == "localhost"):
        host, path = _REGISTRY, name
    path, colon, tag = path.rpartition(":")
    if not colon:
        path, tag = tag, ""
    by_tag = (f"{host}/{path}:{tag or 'latest'}",) if tag or not digest else ()
    return (*((f"{host}/{path}@{digest}",) if digest else ()), *by_tag)
