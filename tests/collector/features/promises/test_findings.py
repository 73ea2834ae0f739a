from collections.abc import Sequence

import pytest

from collector.analysis.bottlenecks import BottleneckKind
from collector.features.promises.findings import promise_findings
from collector.features.promises.ledger.events import LifecycleEvent
from collector.features.promises.ledger.promises import ServiceMode
from tests.collector.features.promises.ledger.builders import ended, ledger_of, started, waiting, withdrawn


def _evidence(
    events: Sequence[LifecycleEvent],
    now: float,
    promise: str = "silver",
    mode: ServiceMode = ServiceMode.INDEPENDENT,
) -> list[str]:
    found = list(promise_findings(ledger_of(events, mode, promise).standings(now)))
    assert all(each.kind is BottleneckKind.PROMISE and each.subject == "web" for each in found)
    return [each.evidence for each in found]


def test_a_promise_that_breaks_soon_is_found_with_the_time_that_is_left() -> None:
    # After 900 s, it may wait for 100 s.
    events = [started(0, "a"), ended(900, "a")]
    assert not _evidence(events, 930)
    assert _evidence(events, 950) == [
        "web will break its promise in 50 s (90% promised, 94.74% delivered; 1 of 1 instance waits)"
    ]


def test_a_broken_promise_is_found_with_the_time_by_which_it_is_behind() -> None:
    assert _evidence([started(0, "a"), ended(900, "a")], 1100) == [
        (
            "web breaks its promise: it is behind by 100 s"
            " (90% promised, 81.82% delivered; 1 of 1 instance waits)"
        )
    ]


def test_a_service_that_hardly_ran_delivers_zero() -> None:
    [evidence] = _evidence([started(0, "a"), ended(1e-6, "a")], 2000)
    assert "90% promised, 0% delivered" in evidence


def test_a_broken_promise_that_recovers_is_found_until_it_is_kept() -> None:
    events = [waiting(0, "a", "1"), started(0, "b", "2"), started(50, "a", "1")]
    assert _evidence(events, 400) == [
        "web breaks its promise: it is behind by 11 s (90% promised, 87.5% delivered; all instances run)"
    ]
    assert not _evidence(events, 501)


def test_a_service_that_runs_does_not_break_its_promise_soon() -> None:
    # It could wait for a second only, but it runs.
    assert not _evidence([started(0, "a")], 9)


def test_a_service_whose_siblings_keep_its_promise_does_not_break_it() -> None:
    events = [started(0, "a", "1"), started(0, "b", "2"), ended(1000, "b", "2")]
    assert not _evidence(events, 2000, "bronze", ServiceMode.AGGREGATED)


@pytest.mark.parametrize(("now", "is_found"), [(30, True), (60, False)])
def test_a_full_promise_that_broke_is_found_only_while_an_instance_waits(now: float, is_found: bool) -> None:  # noqa: FBT001
    assert (
        bool(_evidence([waiting(0, "a"), started(50, "a")][: 1 if now < 50 else 2], now, "gold")) is is_found
    )


def test_a_service_that_is_over_breaks_no_promise() -> None:
    assert not _evidence([waiting(0, "a"), withdrawn(50)], 60)
