"""What a request adds to a node until the node reports it."""

import numpy as np

from collector.policies.interface import Request
from collector.snapshot.columns import best_guess, four
from collector.snapshot.pending import PendingTask
from collector.snapshot.power_curves import Floats


def pending_task(request: Request, node: str) -> PendingTask:
    """Return what a request adds to a node until it is measured there."""
    demand, mean, reserve = (np.array(four(each)) for each in (request.demand, request.mean, request.reserve))
    return PendingTask(
        node=node,
        service=request.service,
        allocated=four(request.reserve),
        envelope=_row(best_guess(demand, reserve)),
        mean=_row(best_guess(mean, demand, reserve)),
        variance=request.variance,
        task_class=request.task_class,
        is_known=request.known or any(request.variance),
        application=request.application,
        delay_max=request.delay_max,
    )


def _row(amounts: Floats) -> tuple[float, float, float, float]:
    cpu, memory, disk, network = amounts.tolist()
    return cpu, memory, disk, network
