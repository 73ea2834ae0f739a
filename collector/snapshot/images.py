"""Which node has which image, so that a container can start there without a download."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageTable:
    """The images of each node, by name."""

    nodes: int
    """Number of nodes in the snapshot."""
    rows_of: Mapping[str, Rows]
    """By image: the nodes that have it."""

    @staticmethod
    def of_nodes(images: Sequence[Iterable[str]]) -> "ImageTable":
        """Build the table from the images of each node, in the order of the snapshot."""
        rows: dict[str, list[int]] = {}
        for row, names in enumerate(images):
            for name in set(names):
                rows.setdefault(name, []).append(row)
        return ImageTable(
            nodes=len(images), rows_of={name: np.array(each, dtype=np.intp) for name, each in rows.items()}
        )

    def on_nodes(self, image: str) -> Flags:
        """Return which nodes have an image: none, if nothing is known about it."""
        has = np.zeros(self.nodes, dtype=np.bool_)
        rows = self.rows_of.get(image)
        if rows is not None:
            has[rows] = True
        return has
