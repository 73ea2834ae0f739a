import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.readers.lifecycles import ClassAvailability, apply_log, parse_log
from wire.errors import UserError

HEADER = "unix_second,event,pod,controller,node,seconds"
# Two pods of one controller: 10 s of waiting, 50 s of running, 20 s of waiting, then running.
LINES = (
    "1000,waiting,free-1-a,free-1,,",
    "1010,allocation,free-1-a,free-1,n1,10.0",
    "1010,starting,free-1-a,free-1,n1,2.0",
    "1060,termination,free-1-a,free-1,,50.0",
    "1060,waiting,free-1-b,free-1,,",
    "1080,allocation,free-1-b,free-1,n2,20.0",
    "1080,starting,free-1-b,free-1,n2,5.0",
)
WHOLE = ClassAvailability(controllers=1, mean_availability=0.7, min_availability=0.7, max_availability=0.7)


def _apply(*lines: str, seconds: float = 100.0) -> tuple[dict[str, ClassAvailability], int]:
    found = apply_log(parse_log([HEADER, *lines]), seconds)
    return dict(found.classes), found.preemptions


def test_a_log_gives_the_availability_of_each_class() -> None:
    classes, preemptions = _apply(*LINES, "1050,waiting,prod-7-x,prod-7,,")
    assert classes == {
        "free": WHOLE,
        "prod": ClassAvailability(controllers=1, mean_availability=0, min_availability=0, max_availability=0),
    }
    assert preemptions == 1


def test_only_the_first_seconds_count() -> None:
    classes, preemptions = _apply(*LINES, "1200,waiting,prod-1-x,prod-1,,", seconds=40)
    assert classes["free"].mean_availability == pytest.approx(30 / 40)
    assert "prod" not in classes
    assert preemptions == 0


@given(lines=st.permutations(LINES))
def test_the_order_of_lines_does_not_matter(lines: list[str]) -> None:
    assert _apply(*lines) == ({"free": WHOLE}, 1)


@pytest.mark.parametrize("missing", range(1, len(LINES)))
def test_a_missing_line_is_completed_from_the_others(missing: int) -> None:
    assert _apply(*(line for number, line in enumerate(LINES) if number != missing)) == ({"free": WHOLE}, 1)


def test_a_missing_first_line_is_completed_from_the_time_that_the_pod_waited() -> None:
    found = apply_log(parse_log([HEADER, *LINES[1:]]), 90)
    assert found.classes["free"] == WHOLE


def test_a_pod_that_never_runs_waits() -> None:
    never = ("1000,waiting,a,free-2,,", "1030,allocation,a,free-2,NIL,30", "1030,termination,a,free-2,,0")
    classes, preemptions = _apply(*never, "1030,waiting,b,free-2,,")
    assert classes["free"].mean_availability == 0
    assert preemptions == 0


def test_a_pod_that_ended_before_it_ran_did_not_run_on_its_node() -> None:
    classes, preemptions = _apply(
        "1000,waiting,a,free-2,,",
        "1010,allocation,a,free-2,n1,10",
        "1040,termination,a,free-2,,0",
        "1040,waiting,b,free-2,,",
    )
    assert classes["free"].mean_availability == 0
    assert preemptions == 0


def test_a_controller_that_is_deleted_no_longer_waits() -> None:
    classes, preemptions = _apply(*LINES, "1090,termination,free-1-b,free-1,,10", seconds=1000)
    assert classes["free"].mean_availability == pytest.approx(60 / 90)
    assert preemptions == 1


def test_without_a_period_the_whole_log_counts() -> None:
    found = apply_log(parse_log([HEADER, *LINES, "1100,waiting,prod-1-x,prod-1,,"]))
    assert found.classes["free"] == WHOLE


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no column 'unix_second'"),
        (["a,b"], "no column 'unix_second'"),
        ([HEADER], "no events"),
        ([HEADER, "x,waiting,p,c,,"], "line 2 of the log is invalid: could not convert"),
        ([HEADER, "nan,waiting,p,c,,"], "line 2 of the log is invalid: its times"),
        (
            [HEADER, "1,waiting,p,c,,", "1,sleeping,p,c,,"],
            "line 3 of the log is invalid: 'sleeping' is not an event: use one of waiting, ",
        ),
        ([HEADER, "1,waiting,p"], "line 2 of the log is invalid"),
        ([HEADER, "1,waiting,,c,,"], "line 2 of the log is invalid: it names no pod"),
        ([HEADER, "1,termination,p,c,,-4"], "line 2 of the log is invalid: its times"),
    ],
)
def test_an_invalid_log_is_named_with_its_line(lines: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_log(lines)
