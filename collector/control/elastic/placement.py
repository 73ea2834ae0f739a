"""Where new replicas of a service start: the placement policy chooses the nodes, as for a new service."""

import asyncio
from collections import Counter
from dataclasses import dataclass

import msgspec

from collector.control.constraints import UnknownConstraintError
from collector.control.deploy.models import NewService
from collector.control.deploy.questions import container_question
from collector.control.situation import Situation
from collector.drivers.interface import ServiceView
from collector.placement.placing import place_container
from collector.placement.question import resolve_policy, with_promise
from collector.policies.distance import bound_of
from collector.policies.interface import Request
from collector.snapshot.tables import Snapshot
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
    try:
        question = container_question(
            new, situation.view.nodes, spread=True, reserve_seconds=situation.settings.reservation_seconds
        )
    except UnknownConstraintError as error:
        return ReplicaPlacement(left_to_orchestrator=str(error))
    chosen = resolve_policy(core.config, question.policy, question.settings, "place")
    found: Counter[str] = Counter()
    reserved: list[str] = []
    for _ in range(count):
        snapshot = await situation.snapshot()
        try:
            placement = await asyncio.to_thread(
                place_container,
                snapshot,
                with_promise(msgspec.structs.replace(question, reserve_seconds=0.0), core.config),
                chosen,
                core.reservations,
                default_class=core.config.placement.default_class,
                now=core.clock(),
            )
            best = placement.ranking.best
            if best is None or placement.ranking.needs(best):
                break
            node = snapshot.nodes.names[best]
            reserved.append(
                core.reservations.place(
                    snapshot,
                    placement.request,
                    node,
                    now=core.clock(),
                    seconds=question.reserve_seconds,
                ).id
            )
        except UserError as error:
            release_reservations(situation, reserved)
            return ReplicaPlacement(left_to_orchestrator=str(error))
        found[node] += 1
    if len(reserved) == count:
        return ReplicaPlacement(tuple(found.elements()), tuple(reserved))
    release_reservations(situation, reserved)
    return _nowhere(await situation.snapshot(), service, count, found.total())


def _nowhere(snapshot: Snapshot, service: ServiceView, count: int, fitting: int) -> ReplicaPlacement:
    """Leave replicas that do not all fit to the orchestrator, unless round-trip times are bounded.

    The orchestrator may still find room, but it does not know round-trip times.
    """
    why = f"the placement policy finds a node for {fitting} of {count} new replicas of {service.name}"
    bound = bound_of(snapshot, Request(service=service.name))
    is_bounded = snapshot.delays is not None and bound < float("inf")
    return ReplicaPlacement(why_not=why) if is_bounded else ReplicaPlacement(left_to_orchestrator=why)


def release_reservations(situation: Situation, reserved: list[str] | tuple[str, ...]) -> None:
    """Release reservations."""
    for each in reserved:
        situation.core.reservations.release(each)
