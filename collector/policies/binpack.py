"""Binpack, as Docker's first Swarm did it: the node with most promised where the reservation still fits."""

import numpy as np

from collector.policies.interface import Policy, PolicySettings, Ranking, Request, ranked
from collector.policies.scoring import each_percent, promised_ratio, where_promises_fit
from collector.snapshot.tables import Snapshot


def place(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Nodes by the shares of CPU and memory that are promised, the request counted."""
    refused = where_promises_fit(snapshot, request)
    promised = promised_ratio(snapshot, request)
    scores = np.nan_to_num(promised, nan=0.0).sum(axis=1)
    rows = ranked(scores, refused)

    def explain(row: int) -> tuple[str, ...]:
        return (f"promised with this request: {each_percent(promised[row])}",)

    return Ranking(
        rows=rows,
        scores=scores[rows],
        score_is="the shares of CPU and memory that are promised with this request, added up",
        refused=refused,
        explain=explain,
    )


BINPACK = Policy(
    name="binpack", summary="the node with the most promised where the reservation still fits", place=place
)
