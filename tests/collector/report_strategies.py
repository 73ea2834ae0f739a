"""Hypothesis strategies: the reports of agent runs, and the state at the end of each."""

from dataclasses import dataclass, field

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.collector.builders import HEARTBEAT, START, container, state
from wire.messages import (
    Alert,
    ContainerState,
    ContainerUsage,
    Event,
    EventKind,
    Heartbeat,
    NodeState,
    Report,
)
from wire.resources import Quantities, Resource
from wire.sketch import Sketch


@dataclass
class Run:
    """One run of an agent: its reports in order, and the world that the last of them leaves."""

    reports: list[Report] = field(default_factory=list)
    state: NodeState | None = None
    containers: dict[str, ContainerState] = field(default_factory=dict)
    open_alerts: dict[Resource, Alert] = field(default_factory=dict)

    @property
    def last_heartbeat(self) -> int:
        return max(number for number, each in enumerate(self.reports) if each.heartbeat is not None)


# Made once: hypothesis takes longer to make a strategy than to draw from it.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For tests that draw whole runs, which takes long."""
_yes = st.booleans()
_quarter = st.integers(0, 3)
_cores = st.sampled_from([None, 0.1, 0.9])
_seconds = st.sampled_from([0.5, 3.0, 100.0])
_classes = st.sampled_from(["1", "3", "none"])
_names = st.sampled_from(["", "a", "b", "c", "ab", "bc", "abc"])
_resources = st.sampled_from([Resource.CPU, Resource.DISK])
_sketches = st.sampled_from([Sketch(zeros=1), Sketch({3: 2}, zeros=1), Sketch({-5: 1, 900: 3})])
_named = st.sampled_from([None, "id-of-a", "id-of-b"])
_nodes = st.sampled_from([["alpha"], ["beta", "alpha"]])
_boots = st.permutations(["x", "y", "z"])


def some_state(draw: st.DrawFn, at: float) -> NodeState:
    power = state().power if draw(_yes) else None
    return state(used=Quantities(cpu_cores=draw(_cores)), power=power, load_1m=at - START)


def some_container(draw: st.DrawFn, name: str, at: float) -> ContainerState:
    bare = {"power": None, "image": None, "started_at": None} if draw(_yes) else {}
    return container(
        name,
        cpu_seconds_total=at - START,
        used=Quantities(draw(_cores), 1_000_000),
        labels={"tier": name, "wattpack.class": draw(_classes)},
        restarts=1,
        window_seconds=3.0,
        **bare,
    )


def some_alert(draw: st.DrawFn, run: Run, at: float) -> Alert:
    resource = draw(_resources)
    known = run.open_alerts.pop(resource, None) or Alert(resource, at, "too busy")
    if draw(_yes):
        return msgspec.structs.replace(known, closed_at=at)
    named = draw(_named)
    run.open_alerts[resource] = msgspec.structs.replace(
        known, ratio=0.9, evidence=f"too busy at {at}", container=named
    )
    return run.open_alerts[resource]


def some_alerts(draw: st.DrawFn, run: Run, at: float, *, is_heartbeat: bool) -> tuple[Alert, ...]:
    """One that is news, or none; with a heartbeat all that are open."""
    news = (some_alert(draw, run, at),) if draw(_yes) else ()
    if not is_heartbeat:
        return news
    closed = (alert for alert in news if alert.closed_at is not None)
    return (*closed, *run.open_alerts.values())


def some_heartbeat(draw: st.DrawFn) -> Heartbeat:
    usage = (ContainerUsage(f"id-of-{name}", cpu=draw(_sketches)) for name in draw(_names))
    return msgspec.structs.replace(HEARTBEAT, usage=tuple(usage), top={Resource.CPU: ("id-of-a",)})


@st.composite
def runs(
    draw: st.DrawFn, node: str = "alpha", boot: str = "first", begins_at: float = START, most: int = 8
) -> Run:
    """A heartbeat, then whatever moves, with a heartbeat now and then."""
    run = Run()
    at = begins_at
    for sequence in range(1, draw(st.integers(1, most)) + 1):
        at += draw(_seconds)
        is_heartbeat = sequence == 1 or not draw(_quarter)
        moved = [some_container(draw, name, at) for name in draw(_names)]
        # Some of these are gone and there in the same report: they were restarted.
        gone = {f"id-of-{name}" for name in draw(_names)} & set(run.containers)
        run.containers = {name: each for name, each in run.containers.items() if name not in gone}
        run.containers |= {each.id: each for each in moved}
        tells_state = is_heartbeat or draw(_yes)
        if tells_state:
            run.state = some_state(draw, at)
        run.reports.append(
            Report(
                node=node,
                boot=boot,
                sequence=sequence,
                at=at,
                state=run.state if tells_state else None,
                containers=tuple(run.containers.values()) if is_heartbeat else tuple(moved),
                gone=tuple(sorted(gone)),
                events=tuple(Event(EventKind.STARTED, at, each.id) for each in moved),
                alerts=some_alerts(draw, run, at, is_heartbeat=is_heartbeat),
                heartbeat=some_heartbeat(draw) if is_heartbeat else None,
            )
        )
    return run


@st.composite
def clusters(draw: st.DrawFn) -> list[Report]:
    """The reports of a few nodes over a few runs of their agents."""
    reports = []
    for node in draw(_nodes):
        at = START
        for boot in draw(_boots)[: 1 + draw(_yes)]:
            reports += draw(runs(node, boot, at, most=4)).reports
            at = reports[-1].at
    return reports


@st.composite
def deliveries(draw: st.DrawFn, reports: list[Report]) -> list[list[Report]]:
    """The same in any order, some of it more than once, in requests of any size."""
    again = draw(st.lists(st.sampled_from(reports), max_size=4)) if reports else []
    pending = list(draw(st.permutations(reports + again)))
    requests = []
    while pending:
        size = draw(st.integers(1, 4))
        requests.append(pending[:size])
        pending = pending[size:]
    return requests
