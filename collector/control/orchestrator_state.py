"""What the orchestrator knows, on the board: promises, what must stay, nodes that are closed or off."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan

from collector.common.labels import ACT_LABEL, ALLOWED, NEVER, POWER_LABEL
from collector.control.records import Step
from collector.drivers.interface import Mode, NodeView, OrchestratorState, ServiceView
from collector.live.updates import Allocation, NodeStatus
from collector.policies.actions import Cut, Kill, Move, PowerOff, PowerOn, Start
from collector.snapshot.columns import Four, four
from wire.resources import Quantities


@dataclass(frozen=True, slots=True)
class CompletedActions:
    """What the record says was done, and holds."""

    came_from: Mapping[str, str]
    """Containers that stand in for one that was moved, and where that was."""
    cuts: Mapping[str, tuple[str, Quantities, Quantities]]
    """Containers that were promised something else: their node, what they asked for, and what they have."""
    off: frozenset[str]
    """Nodes that were switched off."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> "CompletedActions":
        """From all steps that hold, in the order in which they were done."""
        came_from: dict[str, str] = {}
        cuts: dict[str, tuple[str, Quantities, Quantities]] = {}
        off: set[str] = set()
        for step in steps:
            match step.action:
                case Move(node=source):
                    came_from |= dict.fromkeys(step.containers, source)
                case Cut() as cut:
                    cuts[cut.task] = cut.node, step.requested, cut.allocated
                case PowerOff(node=node):
                    off.add(node)
                case PowerOn(node=node):
                    off.discard(node)
                case Kill() | Start():
                    pass
        return cls(came_from, cuts, frozenset(off))


def allocations(view: OrchestratorState, deeds: CompletedActions, *, opt_in: bool) -> Iterator[Allocation]:
    """What containers were promised, and whether they are held where they are."""
    services = {each.name: each for each in view.services}
    seen = set()
    for task in view.tasks:
        service = services.get(task.service)
        if service is None or not task.container:
            continue
        seen.add(task.container)
        promised = _promised(service)
        requested = allocated = promised
        if task.container in deeds.cuts:
            _, first, now = deeds.cuts[task.container]
            requested, allocated = four(first), four(now)
        yield Allocation(
            node=task.node,
            container=task.container,
            requested=requested,
            allocated=allocated,
            came_from=deeds.came_from.get(task.container),
            stays=service.stays is not None or _is_unwilling(service, opt_in=opt_in),
            everywhere=service.mode is Mode.GLOBAL,
        )
    for container, (node, first, now) in deeds.cuts.items():
        if container not in seen:
            yield Allocation(
                node=node, container=container, requested=four(first), allocated=four(now), stays=opt_in
            )


def hosts(view: OrchestratorState, deeds: CompletedActions) -> Iterator[NodeStatus]:
    """Which nodes are open, and which were switched off: those are closed for nobody who wakes them."""
    for node in view.nodes:
        is_off = node.name in deeds.off
        yield NodeStatus(
            node=node.name,
            on=not is_off,
            accepts=(is_off or node.accepts) and node.labels.get(ACT_LABEL) != NEVER,
            labels=tuple(sorted(_labels(node).items())),
        )


def _labels(node: NodeView) -> Mapping[str, str]:
    """A node's own; a cluster without its managers is none, so that they are never switched off."""
    return {**node.labels, POWER_LABEL: NEVER} if node.is_manager else node.labels


def _promised(service: ServiceView) -> Four:
    """What was reserved, else what it is limited to: more than that it can never have."""
    reserve, limit = four(service.reserve), four(service.limit)
    cpu, memory, disk, network = (
        bound if isnan(kept) else kept for kept, bound in zip(reserve, limit, strict=True)
    )
    return cpu, memory, disk, network


def _is_unwilling(service: ServiceView, *, opt_in: bool) -> bool:
    said = service.labels.get(ACT_LABEL)
    return said == NEVER or (opt_in and said != ALLOWED)
