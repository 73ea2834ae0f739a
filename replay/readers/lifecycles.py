"""Recorded lifecycle logs of Kubernetes: `unix_second,event,pod,controller,node,seconds`.

A pod is an incarnation; its controller is a service with one instance. Times are redundant: an `allocation`
has the seconds that the pod waited, a `termination` those that it ran. A missing line follows from others.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from csv import DictReader
from csv import Error as CsvError
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from collector.features.promises.ledger.events import Ending, LifecycleEvent, LifecycleKind
from collector.features.promises.ledger.ledger import Ledger
from collector.features.promises.ledger.promises import Promise, ServiceMode
from wire.errors import UserError

_COLUMNS = ("unix_second", "event", "pod", "controller", "node", "seconds")
_NO_NODES = frozenset({"", "NIL"})
_ANY_PROMISE = 1.0
"""Availability does not depend on the promise."""


class _LogEvent(StrEnum):
    WAITING = "waiting"
    ALLOCATION = "allocation"
    STARTING = "starting"
    TERMINATION = "termination"


class _Line(NamedTuple):
    at: float
    node: str
    seconds: float | None


class _Pod(NamedTuple):
    """An incarnation. None means unknown, or that it did not happen."""

    name: str
    created: float | None
    started: float | None
    ended: float | None
    node: str
    startup_seconds: float | None

    @property
    def first(self) -> float:
        return min(each for each in (self.created, self.started, self.ended, inf) if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLog:
    """A log as lifecycle events, in order of time."""

    events: Sequence[LifecycleEvent]
    start: float
    """The time of the first line."""
    end: float
    """The time of the last line."""
    lines: int
    pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAvailability:
    """The availability of the controllers of one class."""

    controllers: int
    mean_availability: float
    min_availability: float
    max_availability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAvailability:
    """The availability of the classes of a log."""

    classes: Mapping[str, ClassAvailability]
    preemptions: int
    """Pods that ran and were replaced."""


def parse_log(lines: Iterable[str]) -> RecordedLog:
    """Parse the lines of a log; raises `UserError` with the number of an invalid line."""
    controllers: defaultdict[str, dict[str, dict[_LogEvent, _Line]]] = defaultdict(dict)
    times = []
    for controller, pod, event, line in _parse_lines(lines):
        known = controllers[controller].setdefault(pod, {})
        if event not in known or line.at < known[event].at:
            known[event] = line
        times.append(line.at)
    if not times:
        raise UserError("the log has no events: check that the recording is complete")
    events = [
        event
        for controller, pods in controllers.items()
        for event in _controller_events(controller, [_pod(name, known) for name, known in pods.items()])
    ]
    return RecordedLog(
        events=sorted(events, key=lambda event: event.at),
        start=min(times),
        end=max(times),
        lines=len(times),
        pods=sum(map(len, controllers.values())),
    )


def class_of(controller: str) -> str:
    """The class of a controller: its name up to the first hyphen."""
    return controller.partition("-")[0]


def apply_log(log: RecordedLog, seconds: float | None = None) -> LogAvailability:
    """Apply the first seconds of a log, or all of it, to a ledger; returns the availability at the end."""
    until = log.end if seconds is None else log.start + seconds
    names = sorted({class_of(event.service) for event in log.events})
    promises = (Promise(name=name, availability=_ANY_PROMISE, importance=1) for name in names)
    ledger = Ledger({promise.name: promise for promise in promises})
    for controller in {event.service for event in log.events}:
        ledger.set_service(controller, class_of(controller), ServiceMode.INDEPENDENT)
    for event in log.events:
        if event.at <= until:
            ledger.apply(event)
    services, classes = ledger.standings(until).services, {}
    for name in names:
        found = np.array([each.availability_ratio for each in services if each.slo_class == name])
        if len(found):
            classes[name] = ClassAvailability(
                controllers=len(found),
                mean_availability=float(found.mean()),
                min_availability=float(found.min()),
                max_availability=float(found.max()),
            )
    return LogAvailability(classes=classes, preemptions=sum(each.preemptions for each in services))


def _parse_lines(lines: Iterable[str]) -> Iterator[tuple[str, str, _LogEvent, _Line]]:
    reader = DictReader(lines)
    try:
        missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise UserError(
                f"the log has no column {missing[0]!r}: its first line must be {','.join(_COLUMNS)}"
            )
        for row in reader:
            try:
                yield _parse_row(row)
            except (ValueError, TypeError, AttributeError) as error:
                raise UserError(f"line {reader.line_num} of the log is invalid: {error}") from None
    except CsvError as error:
        raise UserError(f"line {reader.line_num} of the log is invalid: {error}") from None


def _parse_row(row: Mapping[str, str]) -> tuple[str, str, _LogEvent, _Line]:
    if row["event"] not in list(_LogEvent):
        raise ValueError(f"{row['event']!r} is not an event: use one of {', '.join(_LogEvent)}")
    if not row["pod"] or not row["controller"]:
        raise ValueError("it names no pod, or no controller")
    at, seconds = float(row["unix_second"]), float(row["seconds"]) if row["seconds"] else None
    if not isfinite(at) or (seconds is not None and not 0 <= seconds < inf):
        raise ValueError("its times must be finite, and its seconds at least 0")
    return row["controller"], row["pod"], _LogEvent(row["event"]), _Line(at, row["node"], seconds)


def _pod(name: str, lines: Mapping[_LogEvent, _Line]) -> _Pod:
    waiting, allocation = lines.get(_LogEvent.WAITING), lines.get(_LogEvent.ALLOCATION)
    starting, termination = lines.get(_LogEvent.STARTING), lines.get(_LogEvent.TERMINATION)
    nodes = [line.node for line in (starting, allocation) if line is not None and line.node not in _NO_NODES]
    created = None if waiting is None else waiting.at
    if created is None and allocation is not None and allocation.seconds is not None:
        created = allocation.at - allocation.seconds
    started, ran = None, None if termination is None else termination.seconds
    if starting is not None:
        started = starting.at
    elif ran != 0:  # otherwise it ended before it ran, even if a node was chosen
        if allocation is not None and nodes:
            started = allocation.at
        elif termination is not None and ran is not None:
            started = termination.at - ran
    return _Pod(
        name=name,
        created=created,
        started=started,
        ended=None if termination is None else termination.at,
        node=nodes[0] if nodes else "",
        startup_seconds=None if starting is None else starting.seconds,
    )


def _controller_events(controller: str, pods: Sequence[_Pod]) -> Iterator[LifecycleEvent]:
    """The events of one controller, which replaces a pod as soon as it ends."""

    def event(at: float, kind: LifecycleKind, pod: _Pod, ending: Ending | None = None) -> LifecycleEvent:
        is_start = kind is LifecycleKind.STARTED
        return LifecycleEvent(
            at=at,
            kind=kind,
            service=controller,
            incarnation=pod.name,
            slot=controller,
            node=pod.node if is_start else "",
            startup_seconds=pod.startup_seconds if is_start else None,
            ending=ending,
        )

    # Of two pods that are created in the same second, the one that ends first was replaced by the other.
    ordered = sorted(pods, key=lambda pod: (pod.first, inf if pod.ended is None else pod.ended))
    for pod, successor in zip(ordered, [*ordered[1:], None], strict=True):
        if pod.created is not None:
            yield event(pod.created, LifecycleKind.WAITING, pod)
        if pod.started is not None:
            yield event(pod.started, LifecycleKind.STARTED, pod)
        if successor is not None:
            ended = successor.first if pod.ended is None else pod.ended
            yield event(ended, LifecycleKind.ENDED, pod, Ending.PREEMPTED)
        elif pod.ended is not None:
            # No pod replaces it: the controller was deleted.
            yield event(pod.ended, LifecycleKind.ENDED, pod)
            yield event(pod.ended, LifecycleKind.WITHDRAWN, pod)
