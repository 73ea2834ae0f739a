"""What must hold before something is done: each guard is pure, and says no in a sentence or nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collector.common.labels import ACT_LABEL, ALLOWED, MOVE_LABEL, NEVER
from collector.common.liveness import Liveness
from collector.config import ControlConfig
from collector.control.records import IN_MOTION, Pause, Step, StepState
from collector.control.schedule import Schedule
from collector.drivers.interface import Mode, OrchestratorState, ServiceView
from collector.policies.actions import Cut, Kill, Move, PowerOff, PowerOn, Relocation, affected_nodes
from collector.snapshot.tables import NOWHERE, Snapshot

_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardContext:
    """All that guards look at."""

    now: float
    settings: ControlConfig
    timetable: Schedule
    snapshot: Snapshot
    view: OrchestratorState
    pause: Pause | None = None
    """One that lasts."""
    holder: str | None = None
    """Another collector that holds the lease; None if this one does."""
    taken_over_at: float | None = None
    """When this one took the lease after another; None if it never did."""
    trouble: str | None = None
    """Why the orchestrator could not be asked when it was last tried; None if it could."""
    heard_again_at: float | None = None
    """When it answered again after it could not be asked; None if it always could."""
    earlier: Sequence[Step] = ()
    """All steps of other decisions that were begun in the last while."""
    own: Sequence[Step] = ()
    """Those of the same decision that were begun."""

    @property
    def begun(self) -> list[Step]:
        return [*self.earlier, *self.own]

    @property
    def in_motion(self) -> list[Step]:
        return [step for step in self.begun if step.state in IN_MOTION]

    def service(self, name: str | None) -> ServiceView | None:
        """What the orchestrator knows of a service."""
        return next((each for each in self.view.services if each.name == name), None)


Says = str | None
Guard = Callable[[Step, GuardContext], Says]


def not_paused(_step: Step, given: GuardContext) -> Says:
    """Nobody has pulled the switch."""
    pause = given.pause
    if pause is None:
        return None
    why = f" ({pause.why})" if pause.why else ""
    left = f" for {pause.until - given.now:.0f} s more" if pause.until is not None else ""
    return f"acting is paused{left}{why}: wattpack resume ends that"


def has_lease(_step: Step, given: GuardContext) -> Says:
    """No other collector acts."""
    return f"another collector acts: {given.holder}" if given.holder is not None else None


def is_heard(_step: Step, given: GuardContext) -> Says:
    """The orchestrator answers."""
    return given.trouble


def in_time(_step: Step, given: GuardContext) -> Says:
    """Neither outside of the times allowed nor in those forbidden."""
    return given.timetable.why_not(given.now)


def is_fresh(step: Step, given: GuardContext) -> Says:
    """Source and target were heard of lately; one that is switched on need not be."""
    nodes = given.snapshot.nodes
    for name in sorted(affected_nodes(step.action)):
        row = nodes.index.get(name)
        if row is None:
            return f"nothing is known of {name}"
        if not nodes.on[row] and isinstance(step.action, PowerOn):
            continue
        ago = float(nodes.report_age_seconds[row])
        if nodes.liveness[row] == Liveness.DOWN or ago > given.settings.stale_seconds:
            return f"{name} was last heard of {ago:.0f} s ago"
    return None


def is_as_planned(step: Step, given: GuardContext) -> Says:
    """The container still runs where the plan saw it, and the target may be given it.

    What runs on a node that the orchestrator takes for down, it starts elsewhere by itself.
    """
    action, tasks, nodes = step.action, given.snapshot.tasks, given.snapshot.nodes
    if isinstance(action, Move | Kill | Cut):
        row = tasks.index.get(action.task)
        if row is None or nodes.names[tasks.node[row]] != action.node:
            return f"{action.title} does not run on {action.node} any more"
    if isinstance(action, Relocation):
        row = nodes.index.get(action.target or "")
        if row is not None and not nodes.accepts[row]:
            return f"{action.target} takes no tasks: drained, paused or opted out"
        for each in given.view.nodes:
            if each.name in affected_nodes(action) and not each.ready:
                return f"the orchestrator says that {each.name} is not ready"
    return None


def is_willing(step: Step, given: GuardContext) -> Says:
    """Neither the service nor a node has opted out; and if asked for, the service has opted in."""
    labels = {each.name: each.labels for each in given.view.nodes}
    nodes = given.snapshot.nodes
    for name in sorted(affected_nodes(step.action)):
        row = nodes.index.get(name)
        told = {**labels.get(name, {}), **(nodes.labels[row] if row is not None else {})}
        if told.get(ACT_LABEL) == NEVER:
            return f"{name} has opted out by its label {ACT_LABEL}={NEVER}"
    if isinstance(step.action, PowerOn | PowerOff):
        return None
    service = given.service(step.service)
    said = None if service is None else service.labels.get(ACT_LABEL)
    if said == NEVER:
        return f"{step.service} has opted out by its label {ACT_LABEL}={NEVER}"
    if given.settings.opt_in and said != ALLOWED:
        who = step.service or step.action.title
        return f"{who} has not opted in: control.opt_in asks for {ACT_LABEL}={ALLOWED}"
    return None


def may_move(step: Step, given: GuardContext) -> Says:
    """The orchestrator does not hold the container where it is."""
    if not isinstance(step.action, Move):
        return None
    service = given.service(step.service)
    if service is not None and service.stays is not None:
        return f"{step.service} stays where it is: {service.stays}"
    row = given.snapshot.tasks.index.get(step.action.task)
    if row is not None and not given.snapshot.tasks.movable[row]:
        return f"{step.action.title} has opted out by its label {MOVE_LABEL}={NEVER}"
    return None


def not_too_many_at_once(step: Step, given: GuardContext) -> Says:
    """Containers on their way are bounded."""
    if not isinstance(step.action, Relocation):
        return None
    under_way = sum(isinstance(each.action, Relocation) for each in given.in_motion)
    most = given.settings.max_concurrent_moves
    return f"containers on their way: {under_way} of at most {most}" if under_way >= most else None


def not_too_many_per_hour(step: Step, given: GuardContext) -> Says:
    """Moves of the last hour are bounded."""
    if not isinstance(step.action, Relocation):
        return None
    since = given.now - _HOUR_SECONDS
    moved = sum(
        isinstance(each.action, Relocation) and (each.started_at or 0.0) > since for each in given.begun
    )
    most = given.settings.max_moves_per_hour
    return f"containers moved within the hour: {moved} of at most {most}" if moved >= most else None


def has_cooled_down(step: Step, given: GuardContext) -> Says:
    """A service that an earlier decision moved is left alone for a while, and one it could not, for less."""
    if not isinstance(step.action, Relocation) or step.service is None:
        return None
    settings = given.settings
    for each in given.earlier:
        if each.service != step.service or not isinstance(each.action, Relocation) or each.started_at is None:
            continue
        has_failed = each.state is StepState.FAILED
        ago = given.now - each.started_at
        rest = (settings.settle_seconds if has_failed else settings.cool_down_seconds) - ago
        if rest > 0:
            what = "could not be moved" if has_failed else "was moved"
            return f"{step.service} {what} {ago:.0f} s ago and rests for {rest:.0f} s more"
    return None


def has_settled(step: Step, given: GuardContext) -> Says:
    """What an earlier decision did to its nodes must show before another touches them.

    What another collector decided is on its own record: whatever it was, that must show too. And so must what
    an orchestrator does by itself when it comes back: it looks for its nodes, and starts anew what it misses.
    """
    if not isinstance(step.action, Move):
        return None
    back = None if given.heard_again_at is None else given.now - given.heard_again_at
    if back is not None and back < given.settings.settle_seconds:
        return f"the orchestrator came back {back:.0f} s ago: what it does by itself must show first"
    since = None if given.taken_over_at is None else given.now - given.taken_over_at
    if since is not None and since < given.settings.settle_seconds:
        return f"another collector acted until {since:.0f} s ago: what it did must show first"
    for each in given.earlier:
        # What was put back, or never left, changes nothing that would have to show.
        if each.state is not StepState.VERIFIED or not isinstance(each.action, Move) or each.ended_at is None:
            continue
        shared = affected_nodes(each.action) & affected_nodes(step.action)
        ago = given.now - each.ended_at
        if shared and ago < given.settings.settle_seconds:
            return f"{min(shared)} was part of a move {ago:.0f} s ago: what that did must show first"
    return None


def risks_little(step: Step, given: GuardContext) -> Says:
    """Only so much of a service, and so much memory, is on its way at once."""
    if not isinstance(step.action, Relocation):
        return None
    moving = [each for each in given.in_motion if isinstance(each.action, Relocation)]
    service = given.service(step.service)
    if service is not None:
        same = 1 + sum(each.service == step.service for each in moving)
        most = max(1, int(given.settings.max_moving_ratio * service.replicas))
        if same > most:
            of = f"{service.replicas} replicas of {step.service}"
            return f"{same} of {of} would be on their way, and {most} may be"
    memory = step.memory_bytes + sum(each.memory_bytes for each in moving)
    if moving and memory > given.settings.max_moving_memory_bytes:
        most_bytes = given.settings.max_moving_memory_bytes
        return f"{memory} bytes of memory would be on their way, and {most_bytes} may be"
    return None


def leaves_nobody_behind(step: Step, given: GuardContext) -> Says:
    """A node is switched off only when nothing runs there but what runs on every node."""
    if not isinstance(step.action, PowerOff):
        return None
    row = given.snapshot.nodes.index.get(step.action.node)
    if row is None:
        return None
    everywhere = {each.name for each in given.view.services if each.mode is Mode.GLOBAL}
    tasks, services = given.snapshot.tasks, given.snapshot.services
    left = [
        tasks.names[task]
        for task in given.snapshot.tasks_on(row)
        if tasks.service[task] == NOWHERE or services.names[tasks.service[task]] not in everywhere
    ]
    return f"{step.action.node} still runs {left[0]}, one of {len(left)}" if left else None


GUARDS: tuple[tuple[str, Guard], ...] = (
    ("pause", not_paused),
    ("lease", has_lease),
    ("driver", is_heard),
    ("window", in_time),
    ("fresh", is_fresh),
    ("plan", is_as_planned),
    ("labels", is_willing),
    ("stays", may_move),
    ("at_once", not_too_many_at_once),
    ("per_hour", not_too_many_per_hour),
    ("cool_down", has_cooled_down),
    ("settle", has_settled),
    ("risk", risks_little),
    ("empty", leaves_nobody_behind),
)


def refusal(step: Step, given: GuardContext) -> tuple[str, str] | None:
    """The first guard that says no, and what it says; None if all let it pass."""
    for name, guard in GUARDS:
        if (said := guard(step, given)) is not None:
            return name, said
    return None
