from datetime import UTC, datetime

import pytest

from collector.config.schedule import Schedule
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
def test_windows_contain_their_times(windows: str, inside: list[str], outside: list[str]) -> None:
    allowed = Schedule.of(windows, "UTC")
    for moment in inside:
        assert allowed.reason_against(at(moment)) is None
    for moment in outside:
        assert (
            allowed.reason_against(at(moment))
            == f"actions are not allowed at this time (control.allowed_times: {windows})"
        )


def test_times_are_in_the_time_zone() -> None:
    schedule = Schedule.of("mon", "Asia/Tokyo")
    assert schedule.reason_against(at("mon 01:30")) is None
    assert (
        schedule.reason_against(at("mon 15:30"))
        == "actions are not allowed at this time (control.allowed_times: mon)"
    )


@pytest.mark.parametrize(
    "wrong", ["someday", "mon 25:00-26:00", "mon-xyz", "10:00", "10:00-10:00", "9:75-10:00"]
)
def test_an_invalid_time_is_an_error(wrong: str) -> None:
    with pytest.raises(UserError, match=r"control\.allowed_times: invalid time .*: write"):
        Schedule.of(wrong, "UTC")
    with pytest.raises(UserError, match="unknown time zone 'Moon'"):
        Schedule.of("", "Moon")
