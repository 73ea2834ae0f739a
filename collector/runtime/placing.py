"""Place a container with the collector's own settings, reservations and clock."""

from functools import partial

from collector.decide.policies.interface import Request
from collector.decide.policies.resolve import PolicyChoice
from collector.decide.question import PlacementQuestion, resolve_policy, with_complete_labels
from collector.decide.ranking import Placement, place_container, warm_up
from collector.runtime.parts import Core
from collector.snapshot.tables import Snapshot


def warm_up_with(core: Core, request: Request, chosen: PolicyChoice) -> None:
    """Let the next snapshot be warmed up by this request, so that similar ones are answered sooner."""
    core.snapshots.warm_up = partial(
        warm_up,
        request=request,
        chosen=chosen,
        pending=core.reservations.pending,
        admission=core.admission,
    )


def place_now(
    core: Core, snapshot: Snapshot, question: PlacementQuestion, *, may_cut: bool = True
) -> Placement:
    """Rank the nodes, and reserve the best one if the question requests it.

    Block the event loop for a few milliseconds at most. Raise `LimitError` if too many placements
    are pending. Without `may_cut`, the best is a node where the container itself is not cut.
    """
    chosen = resolve_policy(core.config, question.policy, question.settings, "place")
    placement = place_container(
        snapshot,
        with_complete_labels(question, core.config),
        chosen,
        core.reservations,
        default_class=core.config.placement.default_class,
        now=core.clock(),
        admission=core.admission,
        may_cut=may_cut,
    )
    warm_up_with(core, placement.request, chosen)
    return placement
