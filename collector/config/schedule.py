"""Times at which actions are allowed, such as `mon-fri 22:00-06:00, sun`."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from wire.errors import UserError

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES: Final = 24 * 60
_WINDOW: Final = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?)?\s*"
    r"(?:(?P<from_hour>\d{1,2}):(?P<from_minute>\d\d)-(?P<to_hour>\d{1,2}):(?P<to_minute>\d\d))?"
)


@dataclass(frozen=True, slots=True)
class Window:
    """A time on some days of the week. One that ends before it begins lasts into the next day."""

    days: frozenset[int]
    """Days on which it begins; Monday is 0."""
    begin_minutes: int
    end_minutes: int

    def holds(self, moment: datetime) -> bool:
        minutes, today = moment.hour * 60 + moment.minute, moment.weekday()
        if self.begin_minutes < self.end_minutes:
            return today in self.days and self.begin_minutes <= minutes < self.end_minutes
        return (today in self.days and minutes >= self.begin_minutes) or (
            (today - 1) % len(_DAYS) in self.days and minutes < self.end_minutes
        )


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times at which actions are allowed."""

    allowed: tuple[Window, ...]
    """If empty, actions are always allowed."""
    zone: ZoneInfo
    text: str
    """The setting `allowed_times`, for messages."""

    @classmethod
    def of(cls, allowed: str, time_zone: str) -> "Schedule":
        """Parse the settings. Raise `UserError` if they are invalid."""
        try:
            zone = ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise UserError(
                f"control.time_zone: unknown time zone {time_zone!r}: use one such as Europe/Vienna or UTC"
            ) from error
        windows = (each.strip() for each in allowed.lower().split(","))
        return cls(tuple(_window(each) for each in windows if each), zone, allowed)

    def reason_against(self, now: float) -> str | None:
        """Return why actions are not allowed at a time; None if they are."""
        moment = datetime.fromtimestamp(now, self.zone)
        if self.allowed and not any(window.holds(moment) for window in self.allowed):
            return f"actions are not allowed at this time (control.allowed_times: {self.text})"
        return None


def _window(text: str) -> Window:
    wrong = UserError(
        f"control.allowed_times: invalid time {text!r}: write mon-fri 22:00-06:00, sat, or 1:00-5:00"
    )
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise wrong
    days = frozenset(range(len(_DAYS)))
    if found["first"] is not None:
        first, last = found["first"], found["last"] or found["first"]
        if first not in _DAYS or last not in _DAYS:
            raise wrong
        start, count = _DAYS.index(first), (_DAYS.index(last) - _DAYS.index(first)) % len(_DAYS) + 1
        days = frozenset((start + day) % len(_DAYS) for day in range(count))
    if found["from_hour"] is None:
        return Window(days, 0, _DAY_MINUTES)
    begin, end = (int(found[f"{side}_hour"]) * 60 + int(found[f"{side}_minute"]) for side in ("from", "to"))
    minutes_fit = max(int(found["from_minute"]), int(found["to_minute"])) < 60  # noqa: PLR2004 - of an hour
    if begin == end or begin >= _DAY_MINUTES or end > _DAY_MINUTES or not minutes_fit:
        raise wrong
    return Window(days, begin, end)
