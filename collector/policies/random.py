"""Random: any node where the reservation fits. What everything else must beat."""

import numpy as np

from collector.policies.interface import Policy, PolicySettings, Ranking, Request, ranked
from collector.policies.scoring import where_promises_fit
from collector.snapshot.tables import Snapshot


def place(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Nodes in an order drawn from the snapshot's seed and turn: the same snapshot draws the same."""
    refused = where_promises_fit(snapshot, request)
    drawn = np.random.default_rng([snapshot.seed, snapshot.turn]).random(len(snapshot.nodes.names))
    rows = ranked(drawn, refused)

    def explain(row: int) -> tuple[str, ...]:
        return (f"it drew {drawn[row]:.3f} in turn {snapshot.turn} (seed {snapshot.seed})",)

    return Ranking(
        rows=rows,
        scores=drawn[rows],
        score_is="a number drawn for each node, the same for the same seed and turn",
        refused=refused,
        explain=explain,
    )


RANDOM = Policy(name="random", summary="any node where the reservation fits", place=place)
