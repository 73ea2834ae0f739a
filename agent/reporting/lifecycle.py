"""Starts and exits of containers: samples matched with the events of the runtime. Pure.

Both contain the same changes, often in another order: a cgroup appears before or after its start event, and
disappears before or after its exit event. Each start and each exit is reported once, with all known details.
A change waits for its event for one sample at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.sampling.node_sample import ContainerSample, NodeSample, display_name
from agent.sources.docker import RuntimeEvent
from wire.messages import MAX_NAME_LENGTH, Event, EventKind

_KEEP_ENDED_SECONDS = 60.0
"""How long an exit is stored, so that a late event of a slow engine is not reported as another exit."""


@dataclass(frozen=True, slots=True)
class ContainerChanges:
    """Changes between two samples."""

    events: tuple[Event, ...] = ()
    started: tuple[str, ...] = ()
    """Containers of this sample that were not in the last one, or were restarted."""
    gone: tuple[str, ...] = ()
    """Containers of the last sample that no longer run."""


@dataclass(frozen=True, slots=True)
class _Time:
    """One instant by both clocks: reports contain the first, durations are computed from the second."""

    unix_seconds: float
    monotonic_seconds: float


@dataclass(slots=True)
class _Run:
    """A container between its start and its end."""

    name: str
    """Its last name."""
    tick: int
    """Number of the sample or event that first showed it."""
    started: _Time
    not_before_seconds: float
    """Monotonic time at which it did not run yet."""
    has_start_time: bool = False
    """`started` comes from the runtime, not from the first sample."""
    is_announced: bool = False
    """The start event came before the first sample."""
    follows_unexplained_end: bool = False
    """It follows an exit without an event so far; the event may still come."""
    cpu_seconds_total: float | None = None
    """Value of the last sample, as are the next two; None before the first."""
    joules_total: float | None = None
    oom_kills_total: int | None = 0


@dataclass(frozen=True, slots=True)
class _End:
    """The exit of a container."""

    name: str
    time: _Time
    run: _Run | None
    """None if it was too short for a sample."""
    is_explained: bool = False
    """The exit event has come."""
    exit_code: int | None = None


class ContainerTracker:
    """Tracks each container from its start to its exit."""

    def __init__(self) -> None:
        self._tick = 0
        self._now = self._last = _Time(0.0, float("-inf"))
        self._events: list[Event] = []
        self._has_runtime = False
        self._runs: dict[str, _Run] = {}
        """Containers of the last sample that have not ended."""
        self._announced: dict[str, _Run] = {}
        """Start event received, not in a sample yet."""
        self._pending_starts: dict[str, _Run] = {}
        """In a sample; their start event may come until the next one."""
        self._pending_ends: dict[str, _End] = {}
        """No longer in a sample; their exit event may come until the next one."""
        self._ended: dict[str, _End] = {}
        """Recently reported exits, oldest first."""
        self._left_over: set[str] = set()
        """Exit event received since the last sample; this sample may still contain the cgroup."""
        self._oom_ticks: dict[str, int] = {}

    def update(self, sample: NodeSample, runtime_events: Sequence[RuntimeEvent]) -> ContainerChanges:
        """Changes since the last sample; containers of the first sample count as already running."""
        self._tick += 1
        self._now, self._last = _Time(sample.rates.unix_seconds, sample.monotonic_seconds), self._now
        self._events = []
        self._left_over.clear()
        before, pending_starts, pending_ends = (
            list(self._runs),
            list(self._pending_starts),
            list(self._pending_ends),
        )
        for event in runtime_events:
            self._has_runtime = True
            match event.kind:
                case "start":
                    self._apply_start(event)
                case "die":
                    self._apply_end(event)
                case "oom":
                    self._report_oom(event.container_id, event.name, event.unix_seconds)
        for container_id in pending_starts:
            self._report_pending_start(container_id)
        for container_id in pending_ends:
            if end := self._pending_ends.pop(container_id, None):
                self._report_end(container_id, end)
        started = tuple([each.id for each in sample.containers if self._apply_container(each)])
        present = {each.id for each in sample.containers}
        for container_id in [each for each in self._runs if each not in present]:
            run = self._runs.pop(container_id)
            self._pending_ends[container_id] = _End(run.name, self._now, run)
        self._prune()
        gone = tuple([container_id for container_id in before if container_id not in self._runs])
        return ContainerChanges(tuple(self._events), started, gone)

    # --- Events of the runtime --------------------------------------------------------------

    def _apply_start(self, event: RuntimeEvent) -> None:
        container_id = event.container_id
        if run := self._runs.get(container_id):
            # A sample was faster; the event adds its name, start time and startup duration.
            run.name = event.name
            self._set_start_time(run, event.unix_seconds)
            self._report_pending_start(container_id, event.startup_seconds)
        elif container_id not in self._announced:
            if end := self._pending_ends.pop(container_id, None):
                self._report_end(container_id, end)
            run = self._new_run(event.name, self._event_time(event))
            run.has_start_time = run.is_announced = True
            self._announced[container_id] = run
            self._report_start(container_id, run, event.startup_seconds)

    def _apply_end(self, event: RuntimeEvent) -> None:
        container_id, time = event.container_id, self._event_time(event)
        run = self._runs.get(container_id) or self._announced.get(container_id)
        if run is not None:
            if run.follows_unexplained_end and run.tick == self._tick - 1:
                run.follows_unexplained_end = False  # that exit is already reported
                return
            self._left_over.add(container_id)
        elif end := self._pending_ends.get(container_id):
            run = end.run
            time = replace(time, monotonic_seconds=end.time.monotonic_seconds)
        elif container_id in self._ended:
            return
        self._report_end(
            container_id, _End(event.name, time, run, is_explained=True, exit_code=event.exit_code)
        )
        for table in (self._runs, self._announced, self._pending_ends):
            table.pop(container_id, None)

    def _event_time(self, event: RuntimeEvent) -> _Time:
        """Time of an event: never before the last sample, even if the clock was set."""
        ago_seconds = max(0.0, self._now.unix_seconds - event.unix_seconds)
        seconds = max(self._last.monotonic_seconds, self._now.monotonic_seconds - ago_seconds)
        return _Time(event.unix_seconds, seconds)

    # --- Samples ----------------------------------------------------------------------------

    def _apply_container(self, container: ContainerSample) -> bool:
        """Apply one container of a sample; returns whether it is new or restarted."""
        container_id, rates = container.id, container.rates
        run = self._runs.get(container_id)
        # CPU time never decreases: if it did, the container was restarted under the same ID.
        is_new = run is None or rates.cpu_seconds_total < (run.cpu_seconds_total or 0.0)
        if run is None:
            if container_id in self._left_over and container_id not in self._announced:
                return False
            run = self._announced.pop(container_id, None) or self._begin(container)
            self._runs[container_id] = run
        elif is_new and not (run.is_announced and run.tick == self._tick - 1):
            self._report_end(container_id, _End(run.name, self._now, run))
            run = self._runs[container_id] = self._begin(container)
        run.name, run.cpu_seconds_total = container.info.name, rates.cpu_seconds_total
        run.joules_total = None if container.power is None else container.power.joules_total
        if rates.oom_kills_total is not None:
            if run.oom_kills_total is not None and rates.oom_kills_total > run.oom_kills_total:
                self._report_oom(container_id, run.name, self._now.unix_seconds)
            run.oom_kills_total = rates.oom_kills_total
        if not run.has_start_time:
            self._set_start_time(run, container.started_at)
        return is_new

    def _begin(self, container: ContainerSample) -> _Run:
        container_id, info = container.id, container.info
        run = self._new_run(info.name, self._now)
        self._set_start_time(run, container.started_at)
        if self._tick == 1:
            run.oom_kills_total = container.rates.oom_kills_total
            return run
        ended = self._ended.get(container_id)
        run.follows_unexplained_end = ended is not None and not ended.is_explained
        self._pending_starts[container_id] = run
        if info.startup_seconds is not None or not self._has_runtime:
            self._report_pending_start(container_id, info.startup_seconds)
        return run

    def _new_run(self, name: str, started: _Time) -> _Run:
        return _Run(name, self._tick, started, self._last.monotonic_seconds)

    def _set_start_time(self, run: _Run, started_at: float | None) -> None:
        """Use the start time from the runtime, as far as it is possible."""
        if started_at is not None and not run.has_start_time:
            age_seconds = max(0.0, self._now.unix_seconds - started_at)
            seconds = max(run.not_before_seconds, self._now.monotonic_seconds - age_seconds)
            run.started = _Time(started_at, min(seconds, run.started.monotonic_seconds))
            run.has_start_time = True

    # --- Reporting --------------------------------------------------------------------------

    def _report_start(self, container_id: str, run: _Run, startup_seconds: float | None) -> None:
        # The runtime measures it with a clock that may have been set in between.
        seconds = None if startup_seconds is None else max(0.0, startup_seconds)
        at = run.started.unix_seconds
        self._report(EventKind.STARTED, at, container_id, run.name, startup_seconds=seconds)

    def _report_pending_start(self, container_id: str, startup_seconds: float | None = None) -> None:
        if run := self._pending_starts.pop(container_id, None):
            self._report_start(container_id, run, startup_seconds)

    def _report_end(self, container_id: str, end: _End) -> None:
        self._report_pending_start(container_id)
        known: dict[str, float | None] = {}
        if run := end.run:
            known = {
                "lifetime_seconds": max(0.0, end.time.monotonic_seconds - run.started.monotonic_seconds),
                "cpu_seconds_total": run.cpu_seconds_total,
                "joules_total": run.joules_total,
            }
        kind = EventKind.DIED if end.exit_code else EventKind.STOPPED
        self._report(kind, end.time.unix_seconds, container_id, end.name, exit_code=end.exit_code, **known)
        self._ended.pop(container_id, None)
        self._ended[container_id] = end

    def _report_oom(self, container_id: str, name: str, at: float) -> None:
        # Runtime and kernel report the same kill, up to one sample apart.
        if container_id not in self._oom_ticks:
            self._oom_ticks[container_id] = self._tick
            self._report(EventKind.OUT_OF_MEMORY, at, container_id, name)

    def _report(self, kind: EventKind, at: float, container_id: str, name: str, **details: Any) -> None:  # noqa: ANN401 - fields of an event
        name = display_name(name, container_id)
        self._events.append(Event(kind, at, container_id[:MAX_NAME_LENGTH], name, **details))

    # --- Pruning ----------------------------------------------------------------------------

    def _prune(self) -> None:
        """Remove entries that can no longer match, so that nothing grows with time."""
        for container_id in [each for each, tick in self._oom_ticks.items() if tick < self._tick]:
            del self._oom_ticks[container_id]
        for container_id in [each for each, run in self._announced.items() if run.tick < self._tick]:
            del self._announced[container_id]
        horizon_seconds = self._now.monotonic_seconds - _KEEP_ENDED_SECONDS
        while self._ended:
            oldest = next(iter(self._ended))
            if self._ended[oldest].time.monotonic_seconds > horizon_seconds:
                break
            del self._ended[oldest]
