"""GenPack's packing of containers that are all known, on empty nodes."""

import numpy as np

from collector.common.arrays import Codes, Floats, Rows
from collector.features.genpack.packing import FreeCapacity, blend, dominant, empty, scores
from collector.snapshot.tables import NOWHERE


def pack(envelopes: Floats, capacity: Floats, groups: Codes | None = None, *, fill: float = 1.0) -> Rows:
    """Pack containers on empty nodes; return the node of each, `NOWHERE` for those that do not fit.

    First the schedule, then the consolidation: nodes are emptied while everything on one fits elsewhere, and
    may then have room for containers that did not fit.
    """
    nodes = np.arange(len(capacity))
    room = FreeCapacity(
        nodes, capacity, np.zeros_like(capacity), fill=fill, is_open=np.ones(nodes.size, dtype=np.bool_)
    )
    order = blend(dominant(envelopes) if groups is None else groups, scores(envelopes))
    targets = np.full(len(envelopes), NOWHERE, dtype=np.intp)
    _put(room, envelopes, targets, order)
    for row in np.setdiff1d(nodes, targets):
        room.hide(int(row))
    while _empty_some(room, envelopes, targets):
        pass
    for row in np.setdiff1d(nodes, targets):
        room.hide(int(row), hidden=False)
    _put(room, envelopes, targets, order[targets[order] == NOWHERE])
    return targets


def _put(room: FreeCapacity, envelopes: Floats, targets: Rows, order: Rows) -> None:
    for container in order:
        row = room.first_fit(envelopes[container])
        if row != NOWHERE:
            room.take(row, envelopes[container])
        targets[container] = row


def _empty_some(room: FreeCapacity, envelopes: Floats, targets: Rows) -> bool:
    """Try to empty each used node, the most available first; changes `targets`."""
    used = sorted({*targets.tolist()} - {NOWHERE}, key=lambda row: (-room.availability_of(row), row))
    emptied = False
    for row in used:
        there = np.flatnonzero(targets == row)
        found = empty(room, row, there, envelopes[there])
        if found is not None:
            targets[there] = found
            emptied = True
    return emptied
