"""Compares predicted shortages with those that happened, and corrects the next predictions.

Every node has its own record, so a node that reports wrong use changes predictions about itself only. A
record holds two sums over the windows of the last days: of the predicted probabilities, and of the windows
that were short. Their ratio corrects the odds of the next prediction. It starts as if one window had been
short where half of one was predicted: cautious, and outweighed after a few predicted shortages.

A prediction is about the containers that are on the node. A window in which some came or left counts only if
it was short all the same: a node that is relieved in time does not show that the prediction was wrong.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from collector.common.arrays import Flags, Floats
from collector.decide.policies.admission.risk import shortage_probability, was_short
from collector.snapshot.tables import NOWHERE, Snapshot

WINDOW_SECONDS = 300.0
_START_SHORT, _START_PREDICTED = 1.0, 0.5
MOST_CORRECTION, LEAST_CORRECTION = 10.0, 0.1
"""Bounds of the correction. Beyond an order of magnitude the prediction is about something else: a higher
factor would close a node for days after one bad hour, a lower one would rely on luck."""
_HALF_LIFE_WINDOWS = 288.0
"""A day, as for the histograms of containers."""
_DECAY = 0.5 ** (1.0 / _HALF_LIFE_WINDOWS)
_VERSION = 1


class NodeShortages(msgspec.Struct, frozen=True, array_like=True):
    """What was predicted for a node and what happened; older windows count less."""

    predicted: float = 0.0
    """Sum of the predicted probabilities."""
    short: float = 0.0
    """Number of windows that were short."""
    windows: float = 0.0
    """Number of windows."""

    def after(self, predicted: float, *, short: bool) -> "NodeShortages":
        return NodeShortages(
            self.predicted * _DECAY + predicted, self.short * _DECAY + short, self.windows * _DECAY + 1.0
        )

    @property
    def correction(self) -> float:
        """The factor for the odds of a prediction."""
        factor = (self.short + _START_SHORT) / (self.predicted + _START_PREDICTED)
        return min(max(factor, LEAST_CORRECTION), MOST_CORRECTION)


class _Stored(msgspec.Struct, frozen=True):
    version: int
    nodes: dict[str, NodeShortages]


_stored = msgspec.msgpack.Decoder(_Stored)
_NEW = NodeShortages()


def corrected(probability: Floats, factor: Floats) -> Floats:
    """The probabilities with their odds times a factor: 0 and 1 stay."""
    odds: Floats = factor * probability
    return odds / (1.0 - probability + odds)


@dataclass(slots=True)
class _Prediction:
    """What was predicted for one window, by node."""

    probability: dict[str, float]
    containers: dict[str, int]
    """A number for the set of containers on each node at the start of the window."""
    changed: frozenset[str] = field(default=frozenset())
    """Nodes with other containers at its end."""
    is_over: bool = False


class JudgedNodes(NamedTuple):
    """The corrections of some nodes, in columns."""

    names: tuple[str, ...]
    factors: Floats
    were_exceeded: Flags
    """Whether a node was short more often than predicted."""


class ScoredWindow(NamedTuple):
    """A prediction for one window of a node, and what happened."""

    predicted: float
    corrected: float
    short: bool


class ShortageRecord:
    """The records of all nodes, and the predictions whose windows are not over yet."""

    def __init__(self, scored: Callable[[ScoredWindow], None] | None = None) -> None:
        """`scored` is called with every window that counts."""
        self._scored = scored
        self._nodes: dict[str, NodeShortages] = {}
        self._predicted: dict[int, _Prediction] = {}
        """By the number of the window."""
        self._judged: JudgedNodes | None = None

    def observe(self, snapshot: Snapshot) -> bool:
        """Predict the window that has begun, and score the one before the last; return whether one began.

        The last window may still change: the next reports describe some of its end. Other threads may read
        meanwhile.
        """
        window = int(snapshot.at // WINDOW_SECONDS)
        if window in self._predicted:
            return False
        nodes = snapshot.nodes
        records = {name: record for name, record in self._nodes.items() if name in nodes.index}
        containers = dict(zip(nodes.names, _containers(snapshot).tolist(), strict=True))
        for each, prediction in sorted(self._predicted.items()):
            if not prediction.is_over:
                prediction.is_over = True
                before = prediction.containers.items()
                prediction.changed = frozenset(name for name, set_ in before if containers.get(name) != set_)
            if each < window - 1:
                del self._predicted[each]
                if window - each <= nodes.history.shape[1]:
                    self._score(snapshot, each - window, prediction, records)
        probability = shortage_probability(snapshot).tolist()
        live = {name: row for row, name in enumerate(nodes.names) if nodes.on[row] and nodes.tasks[row]}
        self._predicted[window] = _Prediction(
            {name: probability[row] for name, row in live.items()}, {name: containers[name] for name in live}
        )
        self._nodes, self._judged = records, _in_columns(records, nodes.names)
        return True

    def _score(
        self, snapshot: Snapshot, bucket: int, prediction: _Prediction, records: dict[str, NodeShortages]
    ) -> None:
        known, short = (each.tolist() for each in was_short(snapshot, bucket))
        for name, predicted in prediction.probability.items():
            row = snapshot.nodes.index.get(name)
            if row is not None and known[row] and (short[row] or name not in prediction.changed):
                before = records.get(name, _NEW)
                if self._scored is not None:
                    odds = float(corrected(np.array(predicted), np.array(before.correction)))
                    self._scored(ScoredWindow(predicted, odds, short[row]))
                records[name] = before.after(predicted, short=short[row])

    def of(self, node: str) -> NodeShortages:
        """The record of a node; empty at first."""
        return self._nodes.get(node, _NEW)

    def judge(self, names: tuple[str, ...]) -> JudgedNodes:
        """The records of nodes in columns, of the last call if nothing changed."""
        judged = self._judged
        if judged is None or judged.names is not names:
            judged = self._judged = _in_columns(self._nodes, names)
        return judged

    def total(self) -> NodeShortages:
        """The sums over all nodes: how well the predictions hold in the cluster."""
        records = self._nodes.values()
        return NodeShortages(
            sum(each.predicted for each in records),
            sum(each.short for each in records),
            sum(each.windows for each in records),
        )

    # --- Storage ------------------------------------------------------------------------------------

    def pack(self) -> bytes:
        return msgspec.msgpack.encode(_Stored(_VERSION, self._nodes))

    def restore(self, packed: bytes) -> None:
        """Continue stored records; those of another version, or that cannot be read, start again."""
        try:
            stored = _stored.decode(packed)
        except msgspec.DecodeError:
            return
        if stored.version == _VERSION:
            self._nodes, self._judged = dict(stored.nodes), None


def _in_columns(nodes: Mapping[str, NodeShortages], names: tuple[str, ...]) -> JudgedNodes:
    records = [nodes.get(name, _NEW) for name in names]
    return JudgedNodes(
        names,
        np.array([each.correction for each in records], dtype=np.float64),
        np.array([each.short > each.predicted for each in records], dtype=np.bool_),
    )


def _containers(snapshot: Snapshot) -> NDArray[np.int64]:
    """Per node: a number that differs, but for chance, if the set of its containers does."""
    tasks = snapshot.tasks
    running = np.flatnonzero(tasks.node != NOWHERE)
    numbers = np.fromiter(map(hash, tasks.ids), dtype=np.int64, count=len(tasks.ids))
    sums = np.zeros(len(snapshot.nodes.names), dtype=np.int64)
    np.add.at(sums, tasks.node[running], numbers[running])
    return sums
