"""The same course of events from samples and from the runtime, in every order in which the two can arrive."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.reporting.lifecycle import ContainerChanges, ContainerTracker
from agent.sources.docker import ContainerInfo, RuntimeEvent
from tests.agent.samples import UNIX_SECONDS, Clock, Container, die, node_sample, oom, start
from wire.messages import Event, EventKind

STARTED, STOPPED, DIED, OUT_OF_MEMORY = (
    EventKind.STARTED,
    EventKind.STOPPED,
    EventKind.DIED,
    EventKind.OUT_OF_MEMORY,
)


class Story:
    """A node on which time passes tick by tick."""

    def __init__(self, **there: Container) -> None:
        self.clock = Clock()
        self.chronicle = ContainerTracker()
        self.changes = self.chronicle.update(node_sample(self.clock, there), ())
        self.events: list[Event] = list(self.changes.events)

    def tick(self, seen: dict[str, Container], *events: RuntimeEvent) -> ContainerChanges:
        """One tick on; `events` are made after the clock was advanced by `next`."""
        self.changes = self.chronicle.update(node_sample(self.clock, seen), events)
        self.events += self.changes.events
        return self.changes

    def next(self, seconds: float = 3.0) -> Clock:
        self.clock.advance(seconds)
        return self.clock

    @property
    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]


def kinds(events: Sequence[Event]) -> list[EventKind]:
    return [event.kind for event in events]


# --- Starts ---------------------------------------------------------------------------------


def test_containers_of_the_first_sample_have_no_start_event() -> None:
    story = Story(a=Container(), b=Container())
    assert story.changes == ContainerChanges(started=("a", "b"))
    story.next()
    assert story.tick({"a": Container(), "b": Container()}) == ContainerChanges()


def test_start_without_a_runtime_is_reported_at_the_first_sample() -> None:
    story = Story()
    clock = story.next()
    assert story.tick({"a" * 64: Container()}) == ContainerChanges(
        events=(Event(STARTED, clock.unix_seconds, "a" * 64, "a" * 12),), started=("a" * 64,)
    )


def test_start_in_sample_and_event_is_reported_once_with_its_startup_time() -> None:
    story = Story()
    clock = story.next()
    changes = story.tick({"a": Container()}, start("a", clock, startup=0.7))
    assert changes.started == ("a",)
    assert changes.events == (Event(STARTED, clock.unix_seconds - 1, "a", "the-a", startup_seconds=0.7),)
    story.next()
    assert story.tick({"a": Container()}) == ContainerChanges()


def test_start_event_before_the_sample_is_reported_at_once() -> None:
    story = Story()
    clock = story.next()
    changes = story.tick({}, start("a", clock))
    assert kinds(changes.events) == [STARTED]
    assert changes.started == ()
    story.next()
    assert story.tick({"a": Container()}) == ContainerChanges(started=("a",))


def test_start_in_a_sample_waits_one_tick_for_its_event() -> None:
    story = Story()
    story.tick({}, start("other", story.next()), die("other", story.clock))
    story.next()
    changes = story.tick({"a": Container()})
    assert changes == ContainerChanges(started=("a",))
    clock = story.next()
    changes = story.tick({"a": Container()}, start("a", clock, ago_seconds=2.9, startup=0.4))
    assert [(event.kind, event.startup_seconds) for event in changes.events] == [(STARTED, 0.4)]
    story.next()
    assert story.tick({"a": Container()}) == ContainerChanges()


def test_start_without_an_event_is_reported_one_tick_later() -> None:
    story = Story()
    story.tick({}, start("other", story.next()), die("other", story.clock))
    seen_at = story.next().unix_seconds
    assert story.tick({"a": Container()}).events == ()
    story.next()
    assert story.tick({"a": Container()}).events == (Event(STARTED, seen_at, "a", "a"),)
    story.next()
    assert story.tick({"a": Container()}, start("a", story.clock)).events == ()


def test_negative_startup_time_is_zero() -> None:
    story = Story()
    changes = story.tick({}, start("a", story.next(), startup=-3599.5))
    assert changes.events[0].startup_seconds == 0.0


# --- Ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "kind"), [(0, STOPPED), (1, DIED), (137, DIED), (None, STOPPED)])
def test_exit_in_sample_and_event_is_reported_once_with_its_status(code: int | None, kind: EventKind) -> None:
    story = Story(a=Container())
    clock = story.next()
    changes = story.tick({}, die("a", clock, code=code))
    assert changes.gone == ("a",)
    assert [(event.kind, event.exit_code, event.at) for event in changes.events] == [
        (kind, code, clock.unix_seconds - 0.5)
    ]
    story.next()
    assert story.tick({}) == ContainerChanges()


def test_exit_event_before_the_cgroup_is_gone_is_reported_once() -> None:
    story = Story(a=Container())
    changes = story.tick({"a": Container()}, die("a", story.next(), code=1))
    assert changes.gone == ("a",)
    assert changes.started == ()
    assert kinds(changes.events) == [DIED]
    story.next()
    assert story.tick({}) == ContainerChanges()


def test_exit_in_a_sample_waits_one_tick_for_its_status() -> None:
    story = Story(a=Container())
    story.next()
    assert story.tick({}) == ContainerChanges(gone=("a",))
    clock = story.next()
    changes = story.tick({}, die("a", clock, ago_seconds=2.5, code=9))
    assert changes.events == (
        Event(
            DIED,
            clock.unix_seconds - 2.5,
            "a",
            "the-a",
            lifetime_seconds=3.0,
            exit_code=9,
            cpu_seconds_total=5.0,
        ),
    )
    assert changes.gone == ()


def test_exit_without_an_event_is_a_stop_and_a_late_event_is_ignored() -> None:
    story = Story(a=Container())
    missed_at = story.next().unix_seconds
    story.tick({})
    story.next()
    changes = story.tick({})
    assert changes.events == (
        Event(STOPPED, missed_at, "a", "a", lifetime_seconds=3.0, cpu_seconds_total=5.0),
    )
    for _ in range(5):
        story.next()
    assert story.tick({}, die("a", story.clock, code=137)).events == ()


def test_container_without_any_sample_is_reported_from_start_to_exit() -> None:
    story = Story()
    clock = story.next()
    changes = story.tick({}, start("a", clock, ago_seconds=2.5), die("a", clock, ago_seconds=1.0, code=1))
    assert kinds(changes.events) == [STARTED, DIED]
    assert changes.events[1].lifetime_seconds == pytest.approx(1.5)
    assert (changes.started, changes.gone) == ((), ())
    clock = story.next()
    story.tick({}, start("b", clock, ago_seconds=0.5))
    clock = story.next()
    changes = story.tick({}, die("b", clock, ago_seconds=1.0))
    (event,) = changes.events
    assert event.kind == STOPPED
    assert event.lifetime_seconds == pytest.approx(2.5)


def test_exit_of_an_unknown_container_has_no_lifetime() -> None:
    story = Story()
    changes = story.tick({}, die("a", story.next(), code=2))
    assert changes.events == (Event(DIED, story.clock.unix_seconds - 0.5, "a", "the-a", exit_code=2),)


def test_exit_uses_the_last_name() -> None:
    story = Story(a=Container())
    story.next()
    story.tick({"a": Container(info=ContainerInfo("web"))})
    for _ in range(2):
        story.next()
        story.tick({})
    assert [event.name for event in story.events] == ["web"]


def test_names_are_cut_to_the_limit_of_a_report() -> None:
    story = Story()
    long_id, clock = "f" * 300, story.next()
    changes = story.tick({}, RuntimeEvent("die", long_id, "n" * 300, clock.unix_seconds))
    assert [(event.container, event.name) for event in changes.events] == [("f" * 253, "n" * 253)]


# --- Restarts -------------------------------------------------------------------------------


def test_a_restart_between_two_ticks_is_an_end_and_a_start() -> None:
    story = Story(a=Container(cpu_seconds_total=50.0))
    clock = story.next()
    changes = story.tick({"a": Container(cpu_seconds_total=0.1)}, die("a", clock, 2.0, 1), start("a", clock))
    assert kinds(changes.events) == [DIED, STARTED]
    assert (changes.started, changes.gone) == (("a",), ())
    story.next()
    assert story.tick({"a": Container(cpu_seconds_total=0.2)}) == ContainerChanges()


def test_restart_after_an_early_sample_is_reported_once_with_two_new_baselines() -> None:
    story = Story(a=Container(cpu_seconds_total=50.0))
    clock = story.next()
    old = Container(cpu_seconds_total=51.0)
    assert kinds(story.tick({"a": old}, die("a", clock), start("a", clock)).events) == [STOPPED, STARTED]
    story.next()
    assert story.tick({"a": Container(cpu_seconds_total=0.1)}) == ContainerChanges(started=("a",))


def test_a_restart_over_two_ticks_is_gone_and_there_again() -> None:
    story = Story(a=Container())
    changes = story.tick({"a": Container()}, die("a", story.next(), code=1))
    assert (kinds(changes.events), changes.gone) == ([DIED], ("a",))
    changes = story.tick({"a": Container()}, start("a", story.next()))
    assert (kinds(changes.events), changes.started) == ([STARTED], ("a",))


def test_restart_found_by_counters_is_reported_and_late_events_are_ignored() -> None:
    story = Story(a=Container(cpu_seconds_total=50.0))
    story.next()
    changes = story.tick({"a": Container(cpu_seconds_total=0.1)})
    assert kinds(changes.events) == [STOPPED, STARTED]
    assert (changes.started, changes.gone) == (("a",), ())
    clock = story.next()
    assert (
        story.tick({"a": Container(cpu_seconds_total=0.2)}, die("a", clock), start("a", clock))
        == ContainerChanges()
    )
    # Its own end, later, is reported as any other.
    for _ in range(3):
        story.next()
        story.tick({"a": Container(cpu_seconds_total=0.3)})
    assert kinds(story.tick({}, die("a", story.next(), code=3)).events) == [DIED]


def test_container_missing_for_one_tick_is_reported_in_order() -> None:
    story = Story(a=Container())
    story.next()
    story.tick({})
    clock = story.next()
    story.tick({"a": Container()}, die("a", clock, 2.9, 4), start("a", clock))
    assert story.kinds == [DIED, STARTED]
    assert story.changes.started == ("a",)


def test_missing_exit_event_is_reported_before_the_next_start() -> None:
    story = Story(a=Container())
    story.next()
    story.tick({})
    story.tick({"a": Container()}, start("a", story.next()))
    assert story.kinds == [STOPPED, STARTED]


# --- Out of memory --------------------------------------------------------------------------


def test_oom_kill_from_runtime_and_kernel_is_reported_once() -> None:
    story = Story(a=Container(oom_kills_total=0))
    story.tick({"a": Container(oom_kills_total=1)}, oom("a", story.next()))
    story.next()
    story.tick({"a": Container(oom_kills_total=1)})
    assert story.kinds == [OUT_OF_MEMORY]


@pytest.mark.parametrize("kernel_first", [True, False])
def test_oom_kill_from_the_other_source_one_tick_later_is_reported_once(*, kernel_first: bool) -> None:
    story = Story(a=Container(oom_kills_total=3))
    clock = story.next()
    story.tick({"a": Container(oom_kills_total=4 if kernel_first else 3)}, *[oom("a", clock)][kernel_first:])
    clock = story.next()
    story.tick({"a": Container(oom_kills_total=4)}, *[oom("a", clock)][not kernel_first :])
    assert story.kinds == [OUT_OF_MEMORY]
    story.next()
    story.tick({"a": Container(oom_kills_total=5)})
    assert story.kinds == [OUT_OF_MEMORY] * 2


def test_oom_kill_and_the_exit_it_causes_are_both_reported() -> None:
    story = Story(a=Container())
    clock = story.next()
    assert kinds(story.tick({}, oom("a", clock), die("a", clock, code=137)).events) == [OUT_OF_MEMORY, DIED]


def test_oom_kills_before_the_start_of_the_agent_are_not_reported() -> None:
    assert Story(a=Container(oom_kills_total=7)).events == []


# --- Times ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step_seconds", [0.0, 3600.0, -3600.0])
def test_lifetime_is_right_after_the_clock_was_set(step_seconds: float) -> None:
    info = ContainerInfo("web", started_at=UNIX_SECONDS - 500.0)
    story = Story(a=Container(info=info))
    for _ in range(10):
        story.next()
        story.tick({"a": Container(info=info)})
    story.clock.set(step_seconds)
    changes = story.tick({}, die("a", story.next(), ago_seconds=1.0))
    assert changes.events[0].lifetime_seconds == pytest.approx(500 + 33 - 1)


@pytest.mark.parametrize("step_seconds", [3600.0, -3600.0])
def test_a_clock_that_is_set_within_a_short_life_stretches_it_by_no_more_than_a_tick(
    step_seconds: float,
) -> None:
    story = Story()
    started = start("a", story.next(), ago_seconds=1.0)
    story.clock.set(step_seconds)
    changes = story.tick({}, started, die("a", story.clock, ago_seconds=0.5))
    lifetime = changes.events[1].lifetime_seconds
    assert lifetime is not None
    assert 0 <= lifetime <= 3


def test_a_start_that_becomes_known_later_counts_from_then_on() -> None:
    story = Story(a=Container())
    story.next()
    story.tick({"a": Container(info=ContainerInfo("web", started_at=UNIX_SECONDS - 100))})
    changes = story.tick({}, die("a", story.next(), ago_seconds=0.0))
    assert changes.events[0].lifetime_seconds == pytest.approx(106)


def test_late_start_event_sets_the_start_time() -> None:
    story = Story()
    story.next()
    story.tick({"a": Container()})
    clock = story.next()
    story.tick({"a": Container()}, start("a", clock, ago_seconds=4.0))
    changes = story.tick({}, die("a", story.next(), ago_seconds=0.0))
    assert changes.events[0].lifetime_seconds == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("started_ago_seconds", "lifetime_seconds"), [(1.0, 4.0), (3600.0, 6.0), (-3600.0, 3.0)]
)
def test_lifetime_lies_between_the_samples_that_bound_it(
    started_ago_seconds: float, lifetime_seconds: float
) -> None:
    story = Story()
    clock = story.next()
    info = ContainerInfo("web", started_at=clock.unix_seconds - started_ago_seconds)
    story.tick({"a": Container(info=info)})
    changes = story.tick({}, die("a", story.next(), ago_seconds=0.0))
    assert changes.events[0].lifetime_seconds == pytest.approx(lifetime_seconds)


def test_a_start_that_becomes_known_after_the_clock_was_set_back_shortens_nothing() -> None:
    story = Story(a=Container())
    story.next(30.0)
    story.clock.set(-3600.0)
    story.tick({"a": Container(info=ContainerInfo("web", started_at=UNIX_SECONDS - 100))})
    changes = story.tick({}, die("a", story.next(), ago_seconds=0.0))
    assert changes.events[0].lifetime_seconds == pytest.approx(33.0)


# --- In general -----------------------------------------------------------------------------

words = st.lists(
    st.tuples(st.sampled_from(["start", "die", "oom"]), st.sampled_from("abc"), st.floats(-5, 5)), max_size=4
)
ticks = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("abc"), st.floats(0, 9), max_size=3), words), max_size=25
)


@given(ticks)
def test_starts_and_exits_alternate_and_state_is_bounded(
    steps: list[tuple[dict[str, float], list[tuple[str, str, float]]]],
) -> None:
    clock, chronicle = Clock(), ContainerTracker()
    running: set[str] = set()
    for seen, notices in steps:
        clock.advance()
        shown = {
            name: Container(cpu_seconds_total=used, oom_kills_total=int(used)) for name, used in seen.items()
        }
        events = [
            RuntimeEvent(kind, name, name, clock.unix_seconds - ago)  # type: ignore[arg-type]
            for kind, name, ago in notices
        ]
        changes = chronicle.update(node_sample(clock, shown), events)
        assert set(changes.gone) <= running
        assert not set(changes.gone) & set(changes.started)
        running = (running - set(changes.gone)) | set(changes.started)
        assert running <= seen.keys()
        assert all((event.lifetime_seconds or 0.0) >= 0 for event in changes.events)
    for _ in range(30):
        clock.advance()
        changes = chronicle.update(node_sample(clock, {}), ())
        running -= set(changes.gone)
    assert not running
    kept = (chronicle._runs, chronicle._announced, chronicle._pending_starts, chronicle._pending_ends)
    assert not any((*kept, chronicle._ended, chronicle._oom_ticks, chronicle._left_over))


@given(st.lists(st.sets(st.sampled_from("abcd")), max_size=25))
def test_starts_and_exits_alternate_without_a_runtime(seen: list[set[str]]) -> None:
    story = Story()
    for present in [*seen, set(), set()]:
        story.next()
        story.tick({name: Container() for name in present})
    for name in "abcd":
        steps = [event.kind for event in story.events if event.container == name]
        assert steps == [STARTED, STOPPED] * (len(steps) // 2)
        before = [set(), *seen]
        assert steps.count(STARTED) == sum(
            name in now and name not in then for then, now in zip(before, seen, strict=False)
        )
