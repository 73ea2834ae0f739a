from hypothesis import given
from hypothesis import strategies as st

from collector.features.promises.tracking.reported import NodeTimes, ReportTimes
from tests.collector.builders import HEARTBEAT, START, partial_report

SAMPLE_SECONDS = HEARTBEAT.sample_seconds


def read(times: NodeTimes, sequence: int, at: float, received_at: float, boot: str = "first") -> ReportTimes:
    heartbeat = HEARTBEAT if sequence == 1 else None
    return times.read(partial_report(boot=boot, sequence=sequence, at=at, heartbeat=heartbeat), received_at)


@given(
    skew=st.floats(-1e6, 1e6),
    delays=st.lists(st.floats(0, 0.5), min_size=1, max_size=5),
    spooled=st.lists(st.floats(0, 3600), min_size=1, max_size=20),
)
def test_times_of_a_wrong_clock_and_of_reports_from_a_spool_are_right(
    skew: float, delays: list[float], spooled: list[float]
) -> None:
    times, at = NodeTimes(), START
    for sequence, delay in enumerate(delays, 1):
        at += 10
        read(times, sequence, at + skew, at + delay)
    received_at = at + 4000
    for sequence, later in enumerate(sorted(spooled), len(delays) + 1):
        found = read(times, sequence, at + later + skew, received_at)
        assert abs(found.at - (at + later)) <= 0.5 + 1e-6
        assert found.since <= found.of(at + later + skew - 1) <= found.at <= received_at


def test_what_is_new_did_not_happen_before_the_last_report() -> None:
    times = NodeTimes()
    first = read(times, 1, START, START)
    assert first.of(START - 1000) == START  # its containers count from its first report on
    second = read(times, 2, START + 60, START + 60)
    assert second.of(START - 1000) == START  # not before the first report, whatever the node reports
    third = read(times, 3, START + 120, START + 120)
    assert third.of(START) == START + 60 - 2 * SAMPLE_SECONDS
    assert third.of(START + 100) == START + 100
    assert third.of(START + 1e6) == START + 120
    assert third.of(None) == START + 120


def test_a_late_report_is_about_any_time_of_its_run() -> None:
    times = NodeTimes()
    for sequence, at in ((1, START), (2, START + 10), (4, START + 30)):
        read(times, sequence, at, at)
    late = read(times, 3, START + 20, START + 40)
    assert late.of(START + 15) == START + 15
    assert read(times, 5, START + 50, START + 50).since == START + 30 - 2 * SAMPLE_SECONDS


def test_a_clock_that_was_set_back_is_measured_again_also_by_the_next_run() -> None:
    times = NodeTimes()
    read(times, 1, START, START)
    back = read(times, 2, START - 3600, START + 10)
    assert (back.at, back.of(START - 3601)) == (START + 10, START + 9)
    restarted = read(times, 1, START - 3000, START + 20, boot="second")
    assert (restarted.at, restarted.since) == (START + 20, START + 10)
    reset = read(times, 1, 100.0, START + 30, boot="third")
    assert reset.at == START + 30
    assert reset.of(95.0) == START + 25
