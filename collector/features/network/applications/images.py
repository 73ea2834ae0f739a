"""Which node has which image, so that a container can start there without a download."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from collector.common.arrays import Flags
from collector.snapshot.parts import SnapshotPart

_REGISTRY = "docker.io"
_OTHER_NAMES = ("index.docker.io", "registry-1.docker.io")


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageTable(SnapshotPart):
    """The images of each node, by any of their names: `redis` is `docker.io/library/redis:latest`."""

    references: tuple[frozenset[str], ...]
    """Per node: the references of its images."""

    @staticmethod
    def of_nodes(images: Sequence[Iterable[str]]) -> "ImageTable":
        """Build the table from the names of the images of each node, in the order of the snapshot."""
        return ImageTable(references=tuple(map(references_of, images)))

    def on_nodes(self, image: str) -> Flags:
        """Return which nodes have an image: none, if nothing is known about it."""
        # With a digest, an image of the same tag may be another one.
        wanted = references(image)[0]
        return np.array([wanted in each for each in self.references], dtype=np.bool_)


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
