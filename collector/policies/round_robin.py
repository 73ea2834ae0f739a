"""Round robin: the nodes where the reservation fits, in turn."""

import numpy as np

from collector.policies.interface import Policy, PolicySettings, Ranking, Rejection, Request
from collector.policies.scoring import where_promises_fit
from collector.snapshot.tables import Snapshot


def place(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Nodes by name, from the one whose turn it is."""
    refused = where_promises_fit(snapshot, request)
    by_name = np.flatnonzero(refused == Rejection.NOT)
    first = snapshot.turn % by_name.size if by_name.size else 0
    rows = np.roll(by_name, -first)

    def explain(row: int) -> tuple[str, ...]:
        number = int(np.searchsorted(by_name, row)) + 1
        among = f"it is number {number} of the {by_name.size} nodes where the reservation fits"
        return (f"{among}, and turn {snapshot.turn} begins at number {first + 1}",)

    return Ranking(
        rows=rows,
        scores=-np.arange(rows.size, dtype=np.float64),
        score_is="minus the turns until the node is next",
        refused=refused,
        explain=explain,
    )


ROUND_ROBIN = Policy(name="round-robin", summary="the nodes where the reservation fits, in turn", place=place)
