"""GenPack's packing: container groups are blended, and each goes to the least available node with room.

Arithmetic on envelopes and free capacity only; `phase` decides what may move.
"""

from math import hypot

import numpy as np

from collector.common.arrays import Codes, Flags, Floats, Rows
from collector.decide.policies.planned import PlannedCluster
from collector.decide.policies.scoring import availability
from collector.snapshot.tables import NOWHERE, share

_ROUNDING = 1e-9


def scores(envelopes: Floats) -> Floats:
    """Return the length of each vector of shares in the sum of all envelopes; unused resources count 0."""
    shares = _shares_of_all(envelopes)
    length: Floats = np.sqrt(np.einsum("ij,ij->i", shares, shares))
    return length


def dominant(envelopes: Floats) -> Codes:
    """Return the resource with each largest share in the sum of all: its group, if analysis found none."""
    most: Codes = _shares_of_all(envelopes).argmax(axis=1).astype(np.int8)
    return most


def _shares_of_all(envelopes: Floats) -> Floats:
    totals = envelopes.sum(axis=0)
    shares: Floats = np.divide(envelopes, totals, out=np.zeros_like(envelopes), where=totals > 0)
    return shares


def blend(groups: Codes, score: Floats) -> Rows:
    """Return one container of each group in turn, the highest score of each first."""
    by_group = np.lexsort((np.arange(groups.size), -score, groups))
    ordered = groups[by_group]
    firsts = np.searchsorted(ordered, ordered)
    turn = np.arange(groups.size) - firsts
    return by_group[np.argsort(turn, kind="stable")]


class FreeCapacity:
    """The free capacity of some nodes while containers are placed on them.

    A node is open (on), or closed (off) until it is switched on because no open one has room. Each fit is one
    pass over columns; no order is maintained.
    """

    def __init__(self, rows: Rows, capacity: Floats, taken: Floats, *, fill: float, is_open: Flags) -> None:
        self.rows = rows
        """Rows of these nodes in the snapshot; methods take and return such rows."""
        self._place = {int(row): place for place, row in enumerate(rows)}
        self._capacity = capacity
        # Neither an unknown capacity nor a rounding error counts against a node.
        left = np.where(np.isnan(capacity), np.inf, capacity * (fill + _ROUNDING) - taken)
        self._free = np.ascontiguousarray(left.T)
        self._availability = availability(share(left, capacity))
        self._open = is_open.copy()
        self._hidden = np.zeros_like(is_open)

    def first_fit(self, envelope: Floats, allowed: Flags | None = None) -> int:
        """Return the least available open node with room, of equals the first by name; or `NOWHERE`.

        `allowed` has a flag for each node of the snapshot.
        """
        fits = self._fits(envelope, allowed) & self._open & ~self._hidden
        return self._lowest(fits, self._availability)

    def closed_fit(self, envelope: Floats, preference: Floats, allowed: Flags | None = None) -> int:
        """Return the closed node with room that has the lowest preference; or `NOWHERE`."""
        return self._lowest(self._fits(envelope, allowed) & ~self._open, preference)

    def take(self, row: int, envelope: Floats) -> None:
        """Place a container on a node, which opens it."""
        place = self._place[row]
        self._open[place] = True
        self._change(place, -envelope)

    def give_back(self, row: int, envelope: Floats) -> None:
        """Remove a container from a node, if it is one of these."""
        place = self._place.get(row)
        if place is not None:
            self._change(place, envelope)

    def hide(self, row: int, *, hidden: bool = True) -> None:
        """Do not offer a node, if it is one of these; or offer it again."""
        place = self._place.get(row)
        if place is not None:
            self._hidden[place] = hidden

    def availability_of(self, row: int) -> float:
        return float(self._availability[self._place[row]])

    def _fits(self, envelope: Floats, allowed: Flags | None) -> Flags:
        fits: Flags = self._free[0] >= envelope[0]
        for place in range(1, envelope.size):
            if envelope[place] > 0:
                fits &= self._free[place] >= envelope[place]
        return fits if allowed is None else fits & allowed[self.rows]

    def _lowest(self, fits: Flags, preference: Floats) -> int:
        places = np.flatnonzero(fits)
        return int(self.rows[places[preference[places].argmin()]]) if places.size else NOWHERE

    def _change(self, place: int, amounts: Floats) -> None:
        self._free[:, place] += amounts
        # For four numbers this is faster than an array, and it runs for every container.
        pairs = zip(self._free[:, place].tolist(), self._capacity[place].tolist(), strict=True)
        self._availability[place] = hypot(
            *(max(free / capacity, 0.0) for free, capacity in pairs if capacity > 0)
        )


def empty(
    room: FreeCapacity,
    row: int,
    containers: Rows,
    envelopes: Floats,
    planned: PlannedCluster | None = None,
) -> Rows | None:
    """Move all containers of an open node elsewhere and return their nodes; None if not all of them fit.

    An emptied node is not offered any more. A plan says where each container may go by its reservation.
    """
    targets = np.full(containers.size, NOWHERE, dtype=np.intp)
    room.hide(row)
    for place in np.argsort(-scores(envelopes), kind="stable"):
        container = int(containers[place])
        allowed = None if planned is None else planned.open_to(container)
        target = room.first_fit(envelopes[place], allowed)
        if target == NOWHERE:
            for moved in np.flatnonzero(targets != NOWHERE):
                room.give_back(int(targets[moved]), envelopes[moved])
                if planned is not None:
                    planned.put(int(containers[moved]), row)
            room.hide(row, hidden=False)
            return None
        room.take(target, envelopes[place])
        if planned is not None:
            planned.put(container, target)
        targets[place] = target
    room.give_back(row, envelopes.sum(axis=0))
    return targets
