"""The rule of admission: a container is admitted where the probability of a shortage stays within a limit."""

from dataclasses import dataclass, replace

import numpy as np

from collector.common.arrays import Flags, Rows
from collector.policies.admission.record import ShortageRecord, corrected
from collector.policies.admission.risk import shortage_probability
from collector.policies.interface import NodeRisks, Ranking, Rejection, Request
from collector.snapshot.tables import Snapshot

_FEWEST_WINDOWS = 12.0
"""Windows from which on the past of a node is worth a mention: an hour."""


@dataclass(frozen=True, eq=False, slots=True)
class AdmissionRule:
    """The limit, and the record of past shortages."""

    limit: float
    record: ShortageRecord

    def judge(
        self, snapshot: Snapshot, request: Request, rows: Rows | None = None, *, has_margins: bool = False
    ) -> NodeRisks:
        """Judge all nodes, or those of `rows`.

        The only container of a node is admitted: otherwise the largest would be admitted nowhere. A policy
        with margins of its own has limited the same risk already: its nodes are admitted, unless they were
        short more often than predicted.
        """
        nodes = snapshot.nodes
        factors = self.record.corrections(nodes.names)
        if rows is None:
            probability = corrected(shortage_probability(snapshot, request), factors)
        else:
            probability = np.full(len(nodes.names), np.nan)
            probability[rows] = corrected(shortage_probability(snapshot, request, rows), factors[rows])
        # A comparison with NaN is false.
        admitted: Flags = (probability <= self.limit) | (nodes.tasks == 0)
        if has_margins:
            admitted |= ~self.record.were_exceeded(nodes.names)

        def reason(row: int) -> str:
            is_empty = bool(nodes.tasks[row] == 0)
            return self._reason(
                nodes.names[row], float(probability[row]), admitted=bool(admitted[row]), is_empty=is_empty
            )

        return NodeRisks(probability=probability, limit=self.limit, admitted=admitted, reason=reason)

    def _reason(self, node: str, probability: float, *, admitted: bool, is_empty: bool) -> str:
        chance = f"short of a resource {probability:.2%} of the time with it"
        if probability <= self.limit:
            verdict = f"{chance}, limit {self.limit:.2%}"
        elif is_empty:
            verdict = f"{chance}, but nothing else runs there"
        elif admitted:
            verdict = f"{chance}, but so far not short more often than predicted"
        else:
            verdict = f"{chance}, above the limit of {self.limit:.2%}"
        past = self.record.of(node)
        if past.windows < _FEWEST_WINDOWS:
            return verdict
        predicted, short = past.predicted / past.windows, past.short / past.windows
        return f"{verdict}; recently {predicted:.2%} predicted and {short:.2%} observed"

    def apply(
        self, snapshot: Snapshot, request: Request, ranking: Ranking, *, has_margins: bool = False
    ) -> Ranking:
        """Refuse the ranked nodes that are not admitted."""
        # In the order of the columns, which is faster to read than that of the ranks.
        rows = np.flatnonzero(ranking.refused == Rejection.NOT)
        risks = self.judge(snapshot, request, rows, has_margins=has_margins)
        keeps = risks.admitted[ranking.rows]
        refused = ranking.refused.copy()
        refused[ranking.rows[~keeps]] = Rejection.RISK
        return replace(
            ranking,
            rows=ranking.rows[keeps],
            scores=ranking.scores[keeps],
            refused=refused,
            risks=risks,
        )
