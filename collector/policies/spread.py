"""Spread, as Docker Swarm does it: count tasks, and nothing that they use.

The rule is that of SwarmKit's scheduler: fewer recent failures (only where a node has had five or more), then
fewer tasks of the same service, then fewer tasks at all.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

from collector.policies.interface import Policy, PolicySettings, Ranking, Request, ranked
from collector.policies.scoring import where_promises_fit
from collector.snapshot.tables import NOWHERE, Snapshot


class SpreadSettings(PolicySettings, frozen=True):
    """What can be chosen."""

    failures: Annotated[
        int, Meta(ge=1, le=1000, description="Recent failures on a node from which they count; Swarm has 5.")
    ] = 5


def place(snapshot: Snapshot, request: Request, settings: SpreadSettings) -> Ranking:
    """Nodes by failures, then tasks of the service, then tasks."""
    nodes = snapshot.nodes
    refused = where_promises_fit(snapshot, request)
    failures = np.where(nodes.failures >= settings.failures, nodes.failures, 0).astype(np.float64)
    service = NOWHERE if request.service is None else snapshot.services.index.get(request.service, NOWHERE)
    of_service = np.zeros(nodes.tasks.size) if service == NOWHERE else snapshot.instances(service)
    # Each part weighs more than all that come after it can, so that one number ranks by all three.
    an_instance = nodes.tasks.max(initial=0) + 1.0
    a_failure = (of_service.max(initial=0) + 1.0) * an_instance
    scores = -(failures * a_failure + of_service * an_instance + nodes.tasks)
    rows = ranked(scores, refused)

    def explain(row: int) -> tuple[str, ...]:
        counted = f"it runs {int(of_service[row])} tasks of this service and {nodes.tasks[row]} in all"
        failed = f"{nodes.failures[row]} tasks died there of late"
        return (counted, failed) if failures[row] else (counted,)

    return Ranking(
        rows=rows,
        scores=scores[rows],
        score_is=(
            f"minus the tasks there, each of this service counting {an_instance:g}, "
            f"each failure from the {settings.failures}th on {a_failure:g}"
        ),
        refused=refused,
        explain=explain,
    )


SPREAD = Policy(
    name="spread",
    summary="Docker Swarm's rule: fewest recent failures, then tasks of the service, then tasks",
    settings=SpreadSettings,
    place=place,
)
