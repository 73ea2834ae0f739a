"""What a request adds to a node until the node reports it."""

from collector.decide.policies.interface import Request
from collector.snapshot.columns import four
from collector.snapshot.pending import PendingTask


def pending_task(request: Request, node: str) -> PendingTask:
    """Return what a request adds to a node until it is measured there."""
    return PendingTask(
        node=node,
        service=request.service,
        allocated=four(request.reserve),
        envelope=request.likely_envelope,
        mean=request.likely_mean,
        variance=request.variance,
        task_class=request.task_class,
        is_known=request.known or any(request.variance),
        application=request.application,
    )
