"""The rule of admission: a container is admitted where the probability of a shortage stays within a limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from collector.common.arrays import Flags, Rows
from collector.decide.policies.actions import Kill, Move
from collector.decide.policies.admission.record import ShortageRecord, corrected
from collector.decide.policies.admission.risk import shortage_probability
from collector.decide.policies.interface import AdmissionVerdict, Ranking, Rejection, Request
from collector.snapshot.pending import PendingTask, with_pending
from collector.snapshot.tables import Snapshot

_FEWEST_WINDOWS = 12.0
"""Windows from which on the past of a node is worth a mention: an hour."""


@dataclass(frozen=True, eq=False, slots=True)
class AdmissionRule:
    """The limit, and the record of past shortages."""

    limit: float
    record: ShortageRecord

    def judge(
        self,
        snapshot: Snapshot,
        request: Request | None,
        rows: Rows,
        *,
        has_margins: bool = False,
        leaving: Sequence[int] = (),
    ) -> tuple[Flags, Callable[[int], AdmissionVerdict]]:
        """Return the nodes of `rows` that are admitted, and the verdict on each, given by its row.

        The only container of a node is admitted: otherwise the largest would be admitted nowhere. A policy
        with margins of its own has limited the same risk already: its nodes are admitted, unless they were
        short more often than predicted. Without a request, the containers that are there are judged.
        """
        nodes, others = snapshot.nodes, snapshot.nodes.tasks - (request is None)
        judged = self.record.judge(nodes.names)
        probability = np.full(len(nodes.names), np.nan)
        probability[rows] = corrected(
            shortage_probability(snapshot, request, rows, leaving), judged.factors[rows]
        )
        # A comparison with NaN is false.
        admitted: Flags = (probability <= self.limit) | (others <= 0)
        if has_margins:
            admitted |= ~judged.were_exceeded

        def verdict(row: int) -> AdmissionVerdict:
            share, is_admitted = float(probability[row]), bool(admitted[row])
            is_empty = bool(others[row] <= 0)
            reason = self._reason(nodes.names[row], share, admitted=is_admitted, is_empty=is_empty)
            return AdmissionVerdict(admitted=is_admitted, probability=share, limit=self.limit, reason=reason)

        return admitted, verdict

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

    def overloaded(
        self, snapshot: Snapshot, tasks: Sequence[PendingTask], *, has_margins: bool = False
    ) -> frozenset[str]:
        """Return the nodes that are not admitted once these tasks run there."""
        after = with_pending(snapshot, tasks, snapshot.turn + 1)
        names = snapshot.nodes.names
        rows = np.array(sorted({snapshot.nodes.index[each.node] for each in tasks}), dtype=np.intp)
        admitted, _ = self.judge(after, None, rows, has_margins=has_margins)
        return frozenset(names[row] for row in rows[~admitted[rows]].tolist())

    def apply(
        self, snapshot: Snapshot, request: Request, ranking: Ranking, *, has_margins: bool = False
    ) -> Ranking:
        """Refuse the ranked nodes that are not admitted."""
        # In the order of the columns, which is faster to read than that of the ranks.
        rows = np.flatnonzero(ranking.refused == Rejection.NOT)
        # A policy that stops or moves others first has found one node for that.
        first = ranking.needs(int(rows[0])) if rows.size == 1 else ()
        leaving = [snapshot.tasks.index[each.task] for each in first if isinstance(each, Kill | Move)]
        admitted, verdict = self.judge(snapshot, request, rows, has_margins=has_margins, leaving=leaving)
        keeps = admitted[ranking.rows]
        refused = ranking.refused.copy()
        refused[ranking.rows[~keeps]] = Rejection.RISK
        return replace(
            ranking,
            rows=ranking.rows[keeps],
            scores=ranking.scores[keeps],
            refused=refused,
            verdict=verdict,
        )
