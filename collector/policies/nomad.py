"""Nomad's binpack: `20 - (10^free CPU + 10^free memory)`, from 0 (empty) to 18 (full)."""

import numpy as np

from collector.policies.interface import Policy, PolicySettings, Ranking, Request, ranked
from collector.policies.scoring import each_percent, promised_ratio, where_promises_fit
from collector.snapshot.power_curves import Floats
from collector.snapshot.tables import Snapshot

_HIGHEST = 18.0


def points(free: Floats) -> Floats:
    """From the shares of CPU and memory that are left to Nomad's points."""
    scores: Floats = np.clip(20.0 - np.power(10.0, free).sum(axis=1), 0.0, _HIGHEST)
    return scores


def place(snapshot: Snapshot, request: Request, _settings: PolicySettings) -> Ranking:
    """Nodes by Nomad's points."""
    refused = where_promises_fit(snapshot, request)
    free = 1.0 - promised_ratio(snapshot, request)
    scores = points(np.nan_to_num(free, nan=1.0))
    rows = ranked(scores, refused)

    def explain(row: int) -> tuple[str, ...]:
        return (f"left with this request: {each_percent(free[row])}",)

    return Ranking(
        rows=rows,
        scores=scores[rows],
        score_is="20 - (10^free CPU + 10^free memory), 0 to 18",
        refused=refused,
        explain=explain,
    )


NOMAD = Policy(name="nomad", summary="Nomad's binpack: full nodes first, on a steep scale", place=place)
