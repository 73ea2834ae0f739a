"""Where new replicas of a service start: the placement policy chooses the nodes, as for a new service."""

import asyncio
from dataclasses import dataclass

from collector.act.new_services import NewService, container_question
from collector.act.orchestrator_state import UnknownConstraintError
from collector.act.situation import Situation
from collector.common.orchestrator import ServiceView
from collector.decide.policies.filters import node_filters
from collector.decide.question import build_request, resolve_policy, with_complete_labels
from collector.decide.ranking import place_container, warm_up
from collector.snapshot.tables import NOWHERE, Snapshot
from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class ReplicaPlacement:
    """Where new replicas start."""

    nodes: tuple[str, ...] = ()
    """One node for each replica; empty if the orchestrator chooses."""
    reserved: tuple[str, ...] = ()
    """The reservations on these nodes."""
    why_not: str | None = None
    """Why no more replicas may start; None if they may."""
    left_to_orchestrator: str | None = None
    """Why the orchestrator chooses the nodes; None if the policy does."""


async def place_replicas(situation: Situation, service: ServiceView, count: int) -> ReplicaPlacement:
    """Choose and reserve a node for each new replica."""
    core = situation.core
    if not core.config.driver.places_tasks:
        return ReplicaPlacement(left_to_orchestrator="kube-scheduler asks the extender")
    new = NewService(
        name=service.name,
        image=service.image.partition("@")[0] or None,
        reserve=service.reserve,
        labels=dict(service.labels),
        constraints=service.constraints,
    )
    nodes: list[str] = []
    reserved: list[str] = []
    try:
        question = container_question(
            new, situation.view.nodes, spread=True, reserve_seconds=situation.settings.reservation_seconds
        )
        question = with_complete_labels(question, core.config)
        chosen = resolve_policy(core.config, question.policy, question.settings, "place")
        for _ in range(count):
            snapshot, default_class = await situation.snapshot(), core.config.placement.default_class
            request, _ = build_request(question, snapshot, default_class)
            # Requests do not wait for what a policy learns from a new snapshot.
            await asyncio.to_thread(warm_up, snapshot, request, chosen, pending=core.reservations.pending)
            placement = place_container(
                snapshot,
                question,
                chosen,
                core.reservations,
                default_class=default_class,
                now=core.clock(),
                may_cut=False,
            )
            if placement.reservation is not None:
                reserved.append(placement.reservation.id)
            best = placement.ranking.best
            if best is None or placement.ranking.needs(best):
                core.reservations.release_all(reserved)
                return _nowhere(await situation.snapshot(), service, count, len(nodes))
            nodes.append(snapshot.nodes.names[best])
    except (UserError, UnknownConstraintError) as error:
        core.reservations.release_all(reserved)
        return ReplicaPlacement(left_to_orchestrator=str(error))
    return ReplicaPlacement(tuple(nodes), tuple(reserved))


def _nowhere(snapshot: Snapshot, service: ServiceView, count: int, fitting: int) -> ReplicaPlacement:
    """Leave replicas that do not all fit to the orchestrator, unless a filter of a feature restricts them.

    The orchestrator may still find room, but it does not know the filter.
    """
    why = f"the placement policy finds a node for {fitting} of {count} new replicas of {service.name}"
    row = snapshot.services.index.get(service.name, NOWHERE)
    restricted = [each.services(snapshot) for each in node_filters(snapshot)]
    if any(each is not None and 0 <= row < len(each) and each[row] for each in restricted):
        return ReplicaPlacement(why_not=why)
    return ReplicaPlacement(left_to_orchestrator=why)
