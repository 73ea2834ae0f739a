"""Starts, stops and deaths: what the pictures show, matched with what the runtime says. Pure.

The two tell the same story, seldom in the same order: a control group is seen before its start is announced
or after, and is gone before its death is told or still there after it. Each start and each end is told
once, with the most that is known of it. Nothing waits for the runtime's word longer than one tick.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.reporting.messages import name_of
from agent.sampling.node_sample import ContainerPicture, Picture
from agent.sources.docker import RuntimeEvent
from wire.messages import LONGEST_NAME, Event, EventKind

_REMEMBERED_SECONDS = 60.0
"""For so long an end is remembered, so that a slow engine's word for it is not taken for another one."""


@dataclass(frozen=True, slots=True)
class Happenings:
    """What happened between two pictures."""

    events: tuple[Event, ...] = ()
    begun: tuple[str, ...] = ()
    """Containers of this picture that were not in the last, or are not the same any more."""
    gone: tuple[str, ...] = ()
    """Containers of the last picture that run no longer."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """One instant by both clocks: what is told is by the first, durations are by the second."""

    unix_seconds: float
    monotonic_seconds: float


@dataclass(slots=True)
class _Life:
    """A container between its start and its end."""

    name: str
    """As it was last called."""
    tick: int
    """When it was first seen, or heard of."""
    begun: _Moment
    not_before_seconds: float
    """It was not there at this time, by the monotonic clock."""
    is_dated: bool = False
    """`begun` is by the runtime's word, rather than when it was first seen."""
    is_announced: bool = False
    """The runtime told of its start before a picture did."""
    follows_unexplained: bool = False
    """It came after an end that only pictures showed, and of which the runtime may still tell."""
    cpu_seconds_total: float | None = None
    """As last read, as are the next; None before it was."""
    joules_total: float | None = None
    oom_kills_total: int | None = 0


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a life: when it came about, or was found."""

    name: str
    moment: _Moment
    life: _Life | None
    """None if it was too short for anyone to have seen it."""
    is_explained: bool = False
    """The runtime has told of it."""
    exit_code: int | None = None

    @property
    def lifetime_seconds(self) -> float | None:
        if self.life is None:
            return None
        return max(0.0, self.moment.monotonic_seconds - self.life.begun.monotonic_seconds)


class Chronicle:
    """Follows every container from its start to its end."""

    def __init__(self) -> None:
        self._tick = 0
        self._now = self._last = _Moment(0.0, float("-inf"))
        self._events: list[Event] = []
        self._has_runtime = False
        self._lives: dict[str, _Life] = {}
        """Those in the last picture that are not known to have ended."""
        self._announced: dict[str, _Life] = {}
        """Said to have started, and not seen yet."""
        self._untold: dict[str, _Life] = {}
        """Seen; the runtime gets a tick to tell of their start."""
        self._vanished: dict[str, _End] = {}
        """Not seen any more; the runtime gets a tick to tell how they ended."""
        self._ended: dict[str, _End] = {}
        """Ends that were told lately, the oldest first."""
        self._left_over: set[str] = set()
        """Ended in this tick by the runtime's word: what the picture shows of them is what they left."""
        self._oom_ticks: dict[str, int] = {}

    def witness(self, picture: Picture, runtime_events: Sequence[RuntimeEvent]) -> Happenings:
        """What happened since the last picture; what is in the very first has merely been there."""
        self._tick += 1
        self._now, self._last = _Moment(picture.sample.unix_seconds, picture.monotonic_seconds), self._now
        self._events = []
        self._left_over.clear()
        before, untold, vanished = list(self._lives), list(self._untold), list(self._vanished)
        for event in runtime_events:
            self._hear(event)
        for container_id in untold:
            self._tell_untold(container_id)
        for container_id in vanished:
            if end := self._vanished.pop(container_id, None):
                self._tell_end(container_id, end)
        begun = tuple([each.id for each in picture.containers if self._see(each)])
        self._miss({each.id for each in picture.containers})
        self._forget()
        gone = tuple([container_id for container_id in before if container_id not in self._lives])
        return Happenings(tuple(self._events), begun, gone)

    # --- The runtime's word -----------------------------------------------------------------

    def _hear(self, event: RuntimeEvent) -> None:
        self._has_runtime = True
        match event.kind:
            case "start":
                self._hear_start(event)
            case "die":
                self._hear_end(event)
            case "oom":
                self._tell_out_of_memory(event.container_id, event.name, event.unix_seconds)

    def _hear_start(self, event: RuntimeEvent) -> None:
        container_id = event.container_id
        if life := self._lives.get(container_id):
            # A picture was faster; what is left to learn is its name, when it began, and how long that took.
            life.name = event.name
            self._date(life, event.unix_seconds)
            self._tell_untold(container_id, event.startup_seconds)
        elif container_id not in self._announced:
            if vanished := self._vanished.pop(container_id, None):
                self._tell_end(container_id, vanished)
            life = self._life(event.name, self._moment(event))
            life.is_dated = life.is_announced = True
            self._announced[container_id] = life
            self._tell_start(container_id, life, event.startup_seconds)

    def _hear_end(self, event: RuntimeEvent) -> None:
        container_id, moment = event.container_id, self._moment(event)
        life = self._lives.get(container_id) or self._announced.get(container_id)
        if life is not None:
            if life.follows_unexplained and life.tick == self._tick - 1:
                life.follows_unexplained = False  # that end has been told
                return
            self._left_over.add(container_id)
        elif vanished := self._vanished.get(container_id):
            life = vanished.life
            moment = replace(moment, monotonic_seconds=vanished.moment.monotonic_seconds)
        elif container_id in self._ended:
            return
        self._tell_end(
            container_id, _End(event.name, moment, life, is_explained=True, exit_code=event.exit_code)
        )
        for book in (self._lives, self._announced, self._vanished):
            book.pop(container_id, None)

    def _moment(self, event: RuntimeEvent) -> _Moment:
        """When an event happened: since the last tick, whatever a clock that was set says."""
        ago_seconds = max(0.0, self._now.unix_seconds - event.unix_seconds)
        seconds = max(self._last.monotonic_seconds, self._now.monotonic_seconds - ago_seconds)
        return _Moment(event.unix_seconds, seconds)

    # --- What a picture shows ---------------------------------------------------------------

    def _see(self, container: ContainerPicture) -> bool:
        """Take note of a container; True if it is one that has not been there before."""
        container_id, sample = container.id, container.sample
        life = self._lives.get(container_id)
        # CPU time never shrinks: if it did, this is another life under the same id.
        is_begun = life is None or sample.cpu_seconds_total < (life.cpu_seconds_total or 0.0)
        if life is None:
            if container_id in self._left_over and container_id not in self._announced:
                return False
            life = self._announced.pop(container_id, None) or self._begin(container)
            self._lives[container_id] = life
        elif is_begun and not (life.is_announced and life.tick == self._tick - 1):
            self._tell_end(container_id, _End(life.name, self._now, life))
            life = self._lives[container_id] = self._begin(container)
        life.name, life.cpu_seconds_total = container.info.name, sample.cpu_seconds_total
        life.joules_total = None if container.power is None else container.power.joules_total
        if sample.oom_kills_total is not None:
            if life.oom_kills_total is not None and sample.oom_kills_total > life.oom_kills_total:
                self._tell_out_of_memory(container_id, life.name, self._now.unix_seconds)
            life.oom_kills_total = sample.oom_kills_total
        if not life.is_dated:
            self._date(life, container.info.started_at)
        return is_begun

    def _begin(self, container: ContainerPicture) -> _Life:
        container_id, info = container.id, container.info
        life = self._life(info.name, self._now)
        self._date(life, info.started_at)
        if self._tick == 1:
            life.oom_kills_total = container.sample.oom_kills_total
            return life
        ended = self._ended.get(container_id)
        life.follows_unexplained = ended is not None and not ended.is_explained
        self._untold[container_id] = life
        if info.startup_seconds is not None or not self._has_runtime:
            self._tell_untold(container_id, info.startup_seconds)
        return life

    def _life(self, name: str, begun: _Moment) -> _Life:
        return _Life(name, self._tick, begun, self._last.monotonic_seconds)

    def _date(self, life: _Life, started_at: float | None) -> None:
        """Take over when the runtime says that it began, as far as that can be."""
        if started_at is not None and not life.is_dated:
            age_seconds = max(0.0, self._now.unix_seconds - started_at)
            seconds = max(life.not_before_seconds, self._now.monotonic_seconds - age_seconds)
            life.begun = _Moment(started_at, min(seconds, life.begun.monotonic_seconds))
            life.is_dated = True

    def _miss(self, present: set[str]) -> None:
        """Take note of those who are not in the picture any more."""
        for container_id in [each for each in self._lives if each not in present]:
            life = self._lives.pop(container_id)
            self._vanished[container_id] = _End(life.name, self._now, life)

    # --- Telling ----------------------------------------------------------------------------

    def _tell_start(self, container_id: str, life: _Life, startup_seconds: float | None) -> None:
        self._events.append(
            Event(
                EventKind.STARTED,
                life.begun.unix_seconds,
                container_id[:LONGEST_NAME],
                name_of(life.name, container_id),
                # The runtime takes it by a clock that may have been set meanwhile.
                startup_seconds=None if startup_seconds is None else max(0.0, startup_seconds),
            )
        )

    def _tell_untold(self, container_id: str, startup_seconds: float | None = None) -> None:
        if life := self._untold.pop(container_id, None):
            self._tell_start(container_id, life, startup_seconds)

    def _tell_end(self, container_id: str, end: _End) -> None:
        self._tell_untold(container_id)
        self._events.append(
            Event(
                EventKind.DIED if end.exit_code else EventKind.STOPPED,
                end.moment.unix_seconds,
                container_id[:LONGEST_NAME],
                name_of(end.name, container_id),
                lifetime_seconds=end.lifetime_seconds,
                exit_code=end.exit_code,
                cpu_seconds_total=end.life.cpu_seconds_total if end.life else None,
                joules_total=end.life.joules_total if end.life else None,
            )
        )
        self._ended.pop(container_id, None)
        self._ended[container_id] = end

    def _tell_out_of_memory(self, container_id: str, name: str, at: float) -> None:
        # Runtime and kernel tell of the same kill, up to a tick apart.
        if container_id not in self._oom_ticks:
            self._oom_ticks[container_id] = self._tick
            self._events.append(
                Event(EventKind.OUT_OF_MEMORY, at, container_id[:LONGEST_NAME], name_of(name, container_id))
            )

    # --- Forgetting -------------------------------------------------------------------------

    def _forget(self) -> None:
        """Drop what can match nothing any more, so that nothing here grows with time."""
        for container_id in [each for each, tick in self._oom_ticks.items() if tick < self._tick]:
            del self._oom_ticks[container_id]
        for container_id in [each for each, life in self._announced.items() if life.tick < self._tick]:
            del self._announced[container_id]
        horizon_seconds = self._now.monotonic_seconds - _REMEMBERED_SECONDS
        while self._ended:
            oldest = next(iter(self._ended))
            if self._ended[oldest].moment.monotonic_seconds > horizon_seconds:
                break
            del self._ended[oldest]
