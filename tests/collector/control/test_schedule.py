from datetime import UTC, datetime

import pytest

from collector.control.schedule import Schedule
from wire.errors import UserError


def at(text: str) -> float:
    """A time of the first week of 2024, whose first day is a Monday."""
    day, clock = text.split()
    number = 1 + ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].index(day)
    return datetime.fromisoformat(f"2024-01-{number:02} {clock}").replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("windows", "inside", "outside"),
    [
        (
            "mon-fri 22:00-06:00",
            ["mon 22:00", "sat 05:59", "tue 03:00"],
            ["mon 21:59", "sat 22:30", "mon 03:00"],
        ),
        ("sun", ["sun 00:00", "sun 23:59"], ["sat 23:59", "mon 00:00"]),
        ("1:00-5:00", ["mon 01:00", "sun 04:59"], ["mon 05:00", "sun 00:59"]),
        ("fri-mon 10:00-24:00", ["sun 10:00", "mon 23:59"], ["tue 10:00", "sat 09:59"]),
        ("sat, sun 12:00-13:00", ["sat 04:00", "sun 12:30"], ["sun 11:00"]),
    ],
)
def test_windows_mean_what_they_say(windows: str, inside: list[str], outside: list[str]) -> None:
    allowed, forbidden = Schedule.of(windows, "", "UTC"), Schedule.of("", windows, "UTC")
    for moment in inside:
        assert allowed.why_not(at(moment)) is None
        assert forbidden.why_not(at(moment)) == f"acting is forbidden now ({windows})"
    for moment in outside:
        assert allowed.why_not(at(moment)) == f"acting is allowed at other times only ({windows})"
        assert forbidden.why_not(at(moment)) is None


def test_what_is_forbidden_counts_more_and_times_are_those_of_the_zone() -> None:
    timetable = Schedule.of("mon", "mon 09:00-10:00", "Asia/Tokyo")
    assert timetable.why_not(at("mon 00:30")) == "acting is forbidden now (mon 09:00-10:00)"
    assert timetable.why_not(at("mon 01:30")) is None
    assert timetable.why_not(at("mon 15:30")) == "acting is allowed at other times only (mon)"


@pytest.mark.parametrize(
    "wrong", ["someday", "mon 25:00-26:00", "mon-xyz", "10:00", "10:00-10:00", "9:75-10:00"]
)
def test_what_cannot_be_read_is_said(wrong: str) -> None:
    with pytest.raises(UserError, match=r"control\.allowed_times: .* is no time: write it as"):
        Schedule.of(wrong, "", "UTC")
    with pytest.raises(UserError, match="there is no 'Moon'"):
        Schedule.of("", "", "Moon")
