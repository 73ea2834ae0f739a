"""The orchestrator's state for the live tables: allocations, services, constraints, status of nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collector.act.records import Step
from collector.common.labels import ACT_LABEL, ALLOWED, NEVER, POWER_LABEL
from collector.common.orchestrator import Mode, NodeView, OrchestratorState
from collector.decide.policies.actions import Cut, Kill, Move, PowerOff, PowerOn, Start
from collector.observe.traits import task_traits
from collector.observe.updates import Allocation, Succession
from collector.snapshot.columns import four
from collector.snapshot.constraints import Constraint, Operator
from collector.snapshot.pending import WaitingTask
from wire.resources import Quantities


@dataclass(frozen=True, slots=True)
class CompletedActions:
    """Recorded actions that are in effect."""

    came_from: Mapping[str, str]
    """The previous node of containers that were moved."""
    first_started_at: Mapping[str, float]
    """When the first container started, by the container that replaces it on another node."""
    cuts: Mapping[str, tuple[str, Quantities, Quantities]]
    """Node, requested and current limits of containers that were cut."""
    off: frozenset[str]
    """Nodes that were switched off."""
    successions: tuple[Succession, ...] = ()
    """Containers that replaced others in moves."""
    waiting: Mapping[str, Step] = field(default_factory=dict)
    """The stops of containers that wait for room, by container."""
    stopped: Mapping[str, Step] = field(default_factory=dict)
    """The stops of optional containers while resources are short, by container."""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> "CompletedActions":
        """Collect the actions from the steps in effect, which are in the order of completion."""
        came_from: dict[str, str] = {}
        first_started_at: dict[str, float] = {}
        cuts: dict[str, tuple[str, Quantities, Quantities]] = {}
        off: set[str] = set()
        successions: list[Succession] = []
        waiting: dict[str, Step] = {}
        stopped: dict[str, Step] = {}
        for step in steps:
            if step.first_started_at is not None:
                first_started_at |= dict.fromkeys(step.containers, step.first_started_at)
            match step.action:
                case Move(node=source) as move:
                    came_from |= dict.fromkeys(step.containers, source)
                    successions += _succession(move, step.containers)
                case Cut() as cut:
                    cuts[cut.task] = cut.node, step.requested, cut.allocated
                case PowerOff(node=node):
                    off.add(node)
                case PowerOn(node=node):
                    off.discard(node)
                case Kill(task=task, target=None, sheds=sheds):
                    (stopped if sheds else waiting)[task] = step
                case Kill(task=task) | Start(task=task):
                    waiting.pop(task, None)
                    stopped.pop(task, None)
        return cls(came_from, first_started_at, cuts, frozenset(off), tuple(successions), waiting, stopped)


def constraints_by_service(view: OrchestratorState) -> dict[str, tuple[Constraint, ...]]:
    """Return the constraints that can be checked here, by service."""
    found = {
        each.name: tuple(known_constraints(each.constraints)) for each in view.services if each.constraints
    }
    return {name: constraints for name, constraints in found.items() if constraints}


def waiting_tasks(completed: CompletedActions) -> list[WaitingTask]:
    """Return the containers that wait for room, in the order in which they were stopped."""
    return [
        WaitingTask(
            id=task,
            name=step.action.title if isinstance(step.action, Kill) else task,
            service=step.service,
            requested=four(step.requested),
            task_class=step.task_class,
            last_node=step.action.node if isinstance(step.action, Kill) else None,
        )
        for task, step in completed.waiting.items()
    ]


def pending_tasks(view: OrchestratorState, default_class: int) -> list[WaitingTask]:
    """Return the tasks that the orchestrator has no node for."""
    services = {each.name: each for each in view.services}
    waiting = [(each, services.get(each.service)) for each in view.pending if not each.node]
    return [
        WaitingTask(
            id=each.id,
            name=each.service if each.slot is None else f"{each.service}.{each.slot}",
            service=each.service,
            requested=four(service.reserved_by(each)),
            task_class=task_traits(service.labels, default_class).task_class,
            constraints=tuple(known_constraints(service.constraints)),
            spread=service.spread,
            last_node=each.stopped_on,
        )
        for each, service in waiting
        if service is not None
    ]


def _succession(move: Move, containers: Sequence[str]) -> Iterator[Succession]:
    """Return the container that replaced a moved one; none if several started, and it is unclear which."""
    if len(containers) == 1 and containers[0] != move.task:
        yield Succession(
            node=move.target, container=containers[0], from_node=move.node, predecessor=move.task
        )


def allocations(
    view: OrchestratorState, completed: CompletedActions, *, opt_in: bool
) -> Iterator[Allocation]:
    """Return what containers reserve, and whether they must stay."""
    services = {each.name: each for each in view.services}
    listed = set()
    for task in view.tasks:
        service = services.get(task.service)
        if service is None or not task.container:
            continue
        listed.add(task.container)
        requested = allocated = four(service.reserved_by(task))
        if task.container in completed.cuts:
            _, first, now = completed.cuts[task.container]
            requested, allocated = four(first), four(now)
        yield Allocation(
            node=task.node,
            container=task.container,
            requested=requested,
            allocated=allocated,
            came_from=completed.came_from.get(task.container),
            first_started_at=completed.first_started_at.get(task.container),
            stays=service.stays is not None or has_opted_out(service.labels, opt_in=opt_in),
            cuttable=service.uncut is None,
            everywhere=service.mode is Mode.GLOBAL,
            labels=service.labels,
            namespace=service.namespace,
        )
    for container, (node, first, now) in completed.cuts.items():
        if container not in listed:
            yield Allocation(
                node=node, container=container, requested=four(first), allocated=four(now), stays=opt_in
            )


def node_statuses(
    view: OrchestratorState, completed: CompletedActions, reporting: Iterable[str] = ()
) -> Iterator[NodeView]:
    """Return whether each node is on and accepts containers; a node that is off accepts them once it is on.

    Nodes that report, but are not part of the orchestrator, accept none.
    """
    listed = {node.name for node in view.nodes}
    for name in reporting:
        if listed and name not in listed:
            yield NodeView(name=name, accepts=False)
    for node in view.nodes:
        is_off = node.name in completed.off
        accepts = (is_off or node.accepts) and node.labels.get(ACT_LABEL) != NEVER
        yield replace(node, on=not is_off, accepts=accepts, labels=_labels(node))


def _labels(node: NodeView) -> Mapping[str, str]:
    """Return the labels of a node; managers are never switched off."""
    return {**node.labels, ROLE: MANAGER, POWER_LABEL: NEVER} if node.is_manager else node.labels


def has_opted_out(labels: Mapping[str, str], *, opt_in: bool) -> bool:
    """Whether Wattpack takes no action on a service with these labels."""
    label = labels.get(ACT_LABEL)
    return label == NEVER or (opt_in and label != ALLOWED)


ROLE, MANAGER = "node.role", "manager"
"""The label that managers of a Swarm have; workers have none."""
_WORKER = "worker"
_LABEL, _HOSTNAME = "node.labels.", "node.hostname"
_UNKNOWN = ("node.id", "node.ip", "node.platform.", "engine.labels.")
"""Attributes of Swarm that are not labels."""
_OPPOSITE = {Operator.IS: Operator.IS_NOT, Operator.IS_NOT: Operator.IS}


class UnknownConstraintError(Exception):
    """A constraint that only the orchestrator can check."""


def parse_constraint(text: str) -> Constraint | None:
    """Return a constraint on the name, role or labels of nodes; None if only Swarm can check it.

    Swarm knows no other attributes than these and `_UNKNOWN`: a constraint on any other one, such as a label
    without `node.labels.`, holds on no node.
    """
    key, operator, value = _split(text)
    if not value:
        return None
    if key == _HOSTNAME:
        return Constraint("node", operator, value)
    if key == ROLE and value in {MANAGER, _WORKER}:
        return Constraint(ROLE, _OPPOSITE[operator] if value == _WORKER else operator, MANAGER)
    return Constraint(key.removeprefix(_LABEL), operator, value) if key.startswith(_LABEL) else None


def known_constraints(texts: Iterable[str]) -> Iterator[Constraint]:
    """Return the constraints that can be checked here; other names are labels of nodes, as in Kubernetes."""
    for text in texts:
        key, operator, value = _split(text)
        if (constraint := parse_constraint(text)) is not None:
            yield constraint
        elif key and not key.startswith(_UNKNOWN):
            yield Constraint(key.removeprefix(_LABEL), operator, value)


def _split(text: str) -> tuple[str, Operator, str]:
    """Return the attribute, the operator and the value; an empty attribute if there is no operator."""
    operator = Operator.IS_NOT if Operator.IS_NOT in text else Operator.IS
    key, found, value = (part.strip() for part in text.partition(operator))
    return key if found else "", operator, value


def require_known(texts: Iterable[str]) -> list[Constraint]:
    """Return all constraints. Raise `UnknownConstraintError` if only the orchestrator can check one."""
    constraints = []
    for text in texts:
        constraint = parse_constraint(text)
        if constraint is None:
            raise UnknownConstraintError(f"only the orchestrator can check its constraint {text}")
        constraints.append(constraint)
    return constraints
