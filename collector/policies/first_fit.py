"""First fit: the first node by name where the reservation fits."""

import numpy as np

from collector.policies.interface import Policy, PolicySettings, Ranking, Rejection, Request
from collector.policies.scoring import where_promises_fit
from collector.snapshot.tables import Snapshot


def place(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Nodes by name."""
    refused = where_promises_fit(snapshot, request)
    rows = np.flatnonzero(refused == Rejection.NOT)

    def explain(row: int) -> tuple[str, ...]:
        before = int(np.searchsorted(rows, row))
        return (f"the reservation fits, and on {before} nodes that come before it by name",)

    return Ranking(
        rows=rows,
        scores=-np.arange(rows.size, dtype=np.float64),
        score_is="minus the nodes before it by name where the reservation fits",
        refused=refused,
        explain=explain,
    )


FIRST_FIT = Policy(name="first-fit", summary="the first node by name where the reservation fits", place=place)
